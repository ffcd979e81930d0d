"""An inverse problem: an equation with unknowns, their priors, and measurements of its solution."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, DTypeLike, Float

from riesz.errors import RieszError
from riesz.fem.coefficient import AbstractCoefficient, Latent, as_coefficient
from riesz.fem.interpolate import PointOperator, point_operator
from riesz.fem.problem import BoundaryValueProblem, boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.space import P1
from riesz.fem.weakform import WeakForm
from riesz.latent.space import LatentSpace, latent_space
from riesz.mesh.mesh import Mesh
from riesz.mesh.refine import Hierarchy
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import Observations

Coordinates = Float[Array, " coordinate"]
"""Standard normal coordinates of all unknowns of a problem."""


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
    observations: Observations = eqx.field(static=True)
    hierarchy: Hierarchy | None = eqx.field(static=True)

    @property
    def num_coordinates(self) -> int:
        return self.latents.num_coordinates

    def z(self, coordinates: Coordinates) -> dict[str, Float[Array, "..."]]:
        """The quantities that the equation reads."""
        return self.latents.z(coordinates)

    def state(self, coordinates: Coordinates) -> Float[Array, " node"]:
        """The exact solution on the mesh."""
        return solve(self.forward, self.z(coordinates))

    def log_likelihood(
        self, coordinates: Coordinates, state: Float[Array, " node"]
    ) -> Float[Array, ""]:
        """The log-density of the observations for a state."""
        z = self.z(coordinates)
        return self.likelihood.log_prob(self.observed, self.operator @ state, z)

    def log_prob(self, coordinates: Coordinates) -> Float[Array, ""]:
        """The log-posterior up to a constant, by an exact solve."""
        likelihood = self.log_likelihood(coordinates, self.state(coordinates))
        return self.latents.log_prior(coordinates) + likelihood

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
    name; observations may lie outside the domain by `tolerance`, a length.
    """
    hierarchy = domain if isinstance(domain, Hierarchy) else None
    mesh = domain.meshes[-1] if isinstance(domain, Hierarchy) else domain
    space = latent_space(latents, mesh)
    coefficients = {name: latent.coefficient(name) for name, latent in space.latents.items()}
    values = {
        tag: named(as_coefficient(value, f"Dirichlet value on {tag!r}"), coefficients)
        for tag, value in (dirichlet or {}).items()
    }
    forward = boundary_value_problem(
        P1(mesh), with_fields(equation, coefficients), values, dtype=dtype
    )
    check_dimension(observations, mesh)
    return checked(
        InverseProblem(
            forward=forward,
            latents=space,
            operator=point_operator(
                forward.space, observations.points, dtype=forward.dtype, tolerance=tolerance
            ),
            observed=jnp.asarray(observations.values, forward.dtype),
            likelihood=likelihood,
            observations=observations,
            hierarchy=hierarchy,
        )
    )


def with_fields(form: WeakForm, coefficients: Mapping[str, AbstractCoefficient]) -> WeakForm:
    """The equation with the names of unknown fields replaced by the fields."""
    terms = tuple(
        dataclasses.replace(
            term,
            coefficients={key: named(c, coefficients) for key, c in term.coefficients.items()},
        )
        for term in form.terms
    )
    return WeakForm(terms, form.point_sources)


def named(
    coefficient: AbstractCoefficient, coefficients: Mapping[str, AbstractCoefficient]
) -> AbstractCoefficient:
    if not isinstance(coefficient, Latent):
        return coefficient
    if coefficient.name not in coefficients:
        raise unknown_latent(coefficient.name, tuple(coefficients))
    return coefficients[coefficient.name]


def unknown_latent(name: str, known: tuple[str, ...]) -> RieszError:
    return RieszError(
        f"the problem names the unknown {name!r}, but priors are given for {', '.join(known)}: "
        f"add latents={{{name!r}: prior}}, or correct the spelling."
    )


def check_dimension(observations: Observations, mesh: Mesh) -> None:
    if observations.points.shape[1] != mesh.dim:
        raise RieszError(
            f"the observations have {observations.points.shape[1]} coordinates, but the mesh has "
            f"{mesh.dim} dimensions."
        )


def checked(problem: InverseProblem) -> InverseProblem:
    """The problem itself, if its parts fit together at the priors' medians."""
    coordinates = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    scale = getattr(problem.likelihood, "sd", None)
    if isinstance(scale, str) and scale not in problem.latents.names:
        raise unknown_latent(scale, problem.latents.names)
    shape = jax.eval_shape(
        lambda c: problem.log_likelihood(c, jnp.zeros(problem.forward.space.num_dofs)), coordinates
    ).shape
    if shape != ():
        raise RieszError("the noise sd must be one number, or one for each observation.")
    return problem
