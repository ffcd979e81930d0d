"""An inverse problem: an equation with unknowns, their priors, and measurements of its solution."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Bool, DTypeLike, Float, PyTree

from riesz.errors import RieszError
from riesz.fem.assembly import with_dirichlet
from riesz.fem.elements.space import P1, PointOperator
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.problem import (
    BoundaryValueProblem,
    boundary_value_problem,
    check_kinds,
    working_dtype,
)
from riesz.fem.solve import Newton, find_root, solve
from riesz.fem.terms.coefficient import AbstractCoefficient, Latent, as_coefficient, with_parts
from riesz.fem.terms.weakform import WeakForm
from riesz.latent.latent import AbstractFieldPrior, LatentSpace, latent_space
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import Hierarchy
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import Observations
from riesz.problem.checks import (
    check_kinds_of_parts,
    check_names,
    check_noise_count,
    check_parts,
    sensor_operator,
)
from riesz.problem.identifiability import tell_unidentified_scale
from riesz.problem.words import problem_text

NodeValues = Float[Array, " node"]

EXAMPLE = "rz.Unknown(rz.BoundaryGP(rz.Matern52(sd=10.0), mean=100.0))"

Tree = TypeVar("Tree")
Coordinates = Float[Array, " coordinate"]
"""Standard normal coordinates of all unknowns of a problem."""


class Unknown(eqx.Module):
    """Values on a stretch of the boundary that are to be inferred, in `dirichlet={tag: ...}`.

    `prior` is what is known of them before the data are seen, as a rule a `BoundaryGP`. Without it
    nothing would be inferred: to any solution one may add another of the equation without sources.
    The unknown is called `u_` and the tag.
    """

    prior: Any = None


STATE, FLUX = "u", "flux"

TAKEN = {
    STATE: "the state",
    FLUX: "the flux of the state",
    "coordinates": "a site of numpyro_model",
    "coordinate": "a plate of numpyro_model",
    "predicted": "a site of numpyro_model",
    "observed": "a site of numpyro_model",
}
"""Names that an unknown cannot have, and what they stand for."""


def check_free_names(latents: Mapping[Any, Any]) -> None:
    for name in latents:
        if not isinstance(name, str):
            raise RieszError(f"latents has the key {name!r}: unknowns are named by strings.")
        if name in TAKEN:
            raise RieszError(f"an unknown is called {name!r}, the name of {TAKEN[name]}: rename.")


def named_unknowns(
    dirichlet: Mapping[str, Any], latents: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dirichlet values in which unknown ones are names, and the priors together with theirs."""
    check_free_names(latents)
    values, priors = dict(dirichlet), dict(latents)
    for tag, value in dirichlet.items():
        if isinstance(value, dist.Distribution | AbstractFieldPrior):
            raise RieszError(
                f"the Dirichlet value on {tag!r} is a prior, a {type(value).__name__}: write "
                f"rz.Unknown(prior), or a name with latents={{name: prior}}."
            )
        if value is None:
            raise RieszError(
                f"the Dirichlet value on {tag!r} is None: leave the tag out where nothing passes "
                f"the boundary, or write {EXAMPLE} where u is not known."
            )
        if isinstance(value, Unknown):
            values[tag] = name_of(tag, value, latents)
            priors[values[tag]] = value.prior
    return values, priors


def name_of(tag: str, value: Unknown, latents: Mapping[str, Any]) -> str:
    if value.prior is None:
        raise RieszError(
            f"the values on {tag!r} are Unknown() without a prior, so that no data could tell them "
            "from any other solution of the equation without sources: say what is known of them, "
            f"as in {EXAMPLE}."
        )
    name = f"u_{tag}"
    if name in latents:
        raise RieszError(
            f"the values on {tag!r} are to be the unknown {name!r}, which latents has already: "
            f"write dirichlet={{{tag!r}: name}} with a name of your own in latents."
        )
    return name


class InverseProblem(eqx.Module):
    """Which values of the unknowns, and which states, explain the observations?

    Unknowns are described by coordinates that are standard normal before the data are seen; `z`
    turns them into the quantities of the equation.
    """

    forward: BoundaryValueProblem
    latents: LatentSpace
    operator: PointOperator  # the state at the sensors
    observed: Float[Array, " sensor"]
    likelihood: AbstractLikelihood
    observations: Observations
    hierarchy: Hierarchy | None = eqx.field(static=True)

    @property
    def num_coordinates(self) -> int:
        return self.latents.num_coordinates

    @property
    def censored(self) -> Bool[np.ndarray, " sensor"]:
        """Which observations are only known to lie below their value."""
        flags = self.likelihood.censored
        return np.zeros(len(self.observed), bool) if flags is None else np.asarray(flags)

    def z(self, coordinates: Coordinates) -> dict[str, Float[Array, "..."]]:
        """The quantities that the equation reads."""
        return self.latents.z(coordinates)

    def state(self, coordinates: Coordinates) -> NodeValues:
        """The exact solution on the mesh."""
        return solve(self.forward, self.z(coordinates))

    def solved(self, coordinates: Coordinates, linear_solver: AbstractLinearSolver) -> NodeValues:
        """The exact solution, all NaN where there is none: one draw must not stop the others."""
        z = self.z(coordinates)
        solution = find_root(self.forward, z, linear_solver, Newton(), None)
        state = with_dirichlet(self.forward, solution.free_values, z)
        return jnp.where(solution.converged, state, jnp.nan)

    def noise_sd(self, z: PyTree) -> Float[Array, " sensor"]:
        """The scale of the noise of each observation, in the precision of the state."""
        return self.likelihood.noise_sd(self.observed, z)

    def log_likelihood(self, coordinates: Coordinates, state: NodeValues) -> Float[Array, ""]:
        """The log-density of the observations for a state."""
        z = self.z(coordinates)
        return self.likelihood.log_prob(self.observed, self.operator @ state, z)

    def log_prob(self, coordinates: Coordinates) -> Float[Array, ""]:
        """The log-posterior up to a constant, by an exact solve."""
        likelihood = self.log_likelihood(coordinates, self.state(coordinates))
        return self.latents.log_prior(coordinates) + likelihood

    def describe(self) -> str:
        """The problem in words: mesh, equation, unknowns with their priors, data and noise."""
        return problem_text(self.forward, self.latents, self.observations, self.likelihood)

    # Told apart by identity, so that a plain `jax.jit(problem.log_prob)` works.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return (
            f"InverseProblem({', '.join(self.latents.names)} from {len(self.observed)} "
            f"observations, {self.forward!r})"
        )

    def numpyro_model(self):
        """A model for NumPyro's own samplers: each unknown is a deterministic site."""

        def model():
            with numpyro.plate("coordinate", self.num_coordinates):
                drawn = numpyro.sample("coordinates", dist.Normal(0.0, 1.0))
            z = self.z(jnp.asarray(drawn))
            for name in self.latents.names:
                numpyro.deterministic(name, z[name])
            predicted = numpyro.deterministic("predicted", self.operator @ solve(self.forward, z))
            scatter = self.likelihood.distribution(jnp.asarray(predicted), z)
            numpyro.sample("observed", scatter, obs=self.observed)

        return model


def inverse_problem(
    domain: Mesh | Hierarchy,
    equation: WeakForm,
    *,
    latents: Mapping[str, Any],
    observations: Observations,
    likelihood: AbstractLikelihood,
    dirichlet: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
    dtype: DTypeLike | None = None,
) -> InverseProblem:
    """Put a problem together and check it.

    `domain` is a mesh or, for engines that train on mini-patches, a hierarchy of meshes;
    `latents` gives the prior of each unknown that the equation, the Dirichlet values or the noise
    name; observations may lie outside the domain by `tolerance`, a length. Where values on the
    boundary are not known, `dirichlet` may hold an unknown's name, or `Unknown(prior)`.
    """
    check_kinds_of_parts(domain, latents, observations, likelihood)
    hierarchy = domain if isinstance(domain, Hierarchy) else None
    mesh = domain.meshes[-1] if isinstance(domain, Hierarchy) else domain
    finite_elements, dirichlet = P1(mesh), {} if dirichlet is None else dirichlet
    check_kinds(finite_elements, equation, dirichlet)
    dirichlet, latents = named_unknowns(dirichlet, latents)
    check_names(equation, dirichlet, likelihood, tuple(latents))
    check_noise_count(likelihood, observations.num_sensors)
    precision = working_dtype(dtype)
    operator = sensor_operator(finite_elements, observations, precision, tolerance)
    space = in_precision(latent_space(latents, mesh), precision)
    coefficients = {name: latent.coefficient(name) for name, latent in space.latents.items()}
    values = {
        tag: with_field(as_coefficient(value, f"Dirichlet value on {tag!r}"), coefficients)
        for tag, value in dirichlet.items()
    }
    forward = boundary_value_problem(
        finite_elements, with_fields(equation, coefficients), values, dtype=precision
    )
    check_parts(forward, space, likelihood, observations.num_sensors)
    tell_unidentified_scale(forward, space)
    return InverseProblem(
        forward=forward,
        latents=space,
        operator=operator,
        observed=jnp.asarray(observations.values, precision),
        likelihood=likelihood,
        observations=observations,
        hierarchy=hierarchy,
    )


def with_observations(
    problem: InverseProblem,
    observations: Observations,
    likelihood: AbstractLikelihood,
    *,
    tolerance: float | None = None,
) -> InverseProblem:
    """The same problem for other measurements.

    What was compiled for one data set serves another with as many observations, where the noise
    is the same or its sd an array, one for each observation.
    """
    check_noise_count(likelihood, observations.num_sensors)
    check_parts(problem.forward, problem.latents, likelihood, observations.num_sensors)
    forward = problem.forward
    return dataclasses.replace(
        problem,
        operator=sensor_operator(forward.space, observations, forward.dtype, tolerance),
        observed=jnp.asarray(observations.values, forward.dtype),
        likelihood=likelihood,
        observations=observations,
    )


def in_precision(tree: Tree, dtype: DTypeLike) -> Tree:
    """The same with all its floating-point arrays in one precision."""

    def cast(leaf):
        return leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(cast, tree)


def with_fields(form: WeakForm, coefficients: Mapping[str, AbstractCoefficient]) -> WeakForm:
    """The equation with the names of unknown fields replaced by the fields."""
    terms = tuple(
        dataclasses.replace(
            term,
            coefficients={key: with_field(c, coefficients) for key, c in term.coefficients.items()},
        )
        for term in form.terms
    )
    return WeakForm(terms, form.point_sources)


def with_field(
    coefficient: AbstractCoefficient, coefficients: Mapping[str, AbstractCoefficient]
) -> AbstractCoefficient:
    def field(part: AbstractCoefficient) -> AbstractCoefficient:
        return coefficients[part.name] if isinstance(part, Latent) else part

    return with_parts(coefficient, field)
