"""An inverse problem: an equation with unknowns, their priors, and measurements of its solution."""

from typing import Any, NoReturn, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError
from riesz.fem.default_solver import choose_solver
from riesz.fem.elements.space import Operator
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic, SparseLU
from riesz.fem.problem import BoundaryValueProblem
from riesz.mesh.refinement import Hierarchy
from riesz.observe.likelihood import AbstractLikelihood
from riesz.observe.observations import Observations
from riesz.observe.sensors import AbstractSensors
from riesz.priors.latent import LatentSpace, Z
from riesz.problem.description import problem_text
from riesz.problem.observation_in_time import ObservationInTime, Steady, concatenate_parts

NodeValues = Float[Array, " node"]

Tree = TypeVar("Tree")
Coordinates = Float[Array, " coordinate"]
"""Standard normal coordinates of all unknowns of a problem."""

MANY_DRAWS = 500
"""Values of the unknowns for which a fit or a check solves, each with a matrix of its own."""


class InverseProblem(eqx.Module):
    """Which values of the unknowns, and which states, explain the observations?

    Unknowns are described by coordinates that are standard normal before the data are seen; `z`
    turns them into the quantities of the equation.
    """

    forward: BoundaryValueProblem
    latents: LatentSpace
    linear: Operator | None  # what is observed, where that is linear in the state
    sensors: tuple[AbstractSensors, ...]  # of each experiment otherwise
    observed: Float[Array, " sensor"]
    likelihood: AbstractLikelihood
    observations: Observations
    hierarchy: Hierarchy | None = eqx.field(static=True)
    others: tuple[BoundaryValueProblem, ...] = ()  # of further experiments, with the same unknowns
    time: ObservationInTime | None = None  # of an equation in time; its state is then a record

    @property
    def num_coordinates(self) -> int:
        return self.latents.num_coordinates

    @property
    def forwards(self) -> tuple[BoundaryValueProblem, ...]:
        """The equations of all experiments; their states stand one after the other in one."""
        return (self.forward, *self.others)

    @property
    def record(self) -> Steady | ObservationInTime:
        """How a state is found and what is kept of it, steady or in time."""
        return self.time or Steady(self.forwards)

    @property
    def in_time(self) -> ObservationInTime:
        """How a state is recorded along the time axis; raises where there is none."""
        if self.time is None:
            raise RieszError("the equation is one of a steady state: leave the times out.")
        return self.time

    @property
    def num_solves(self) -> int:
        """Linear solves for one value of the unknowns, where the equation is linear."""
        return len(self.forwards) * self.record.num_times

    @property
    def operator(self) -> Operator:
        """What is observed, as rows of an operator on the state; raises where it is not linear."""
        if self.linear is None:
            raise RieszError(
                f"observations ({self.observations.what.describe()}) are no linear functions of "
                "the state: use problem.predict(state, z)."
            )
        return self.linear

    @property
    def censored(self) -> Bool[np.ndarray, " sensor"]:
        """Which observations are only known to lie below their value."""
        flags = self.likelihood.censored
        return np.zeros(len(self.observed), bool) if flags is None else np.asarray(flags)

    def z(self, coordinates: Coordinates) -> Z:
        """The quantities that the equation reads."""
        return self.latents.z(coordinates)

    def state(
        self, coordinates: Coordinates, linear_solver: AbstractLinearSolver | None = None
    ) -> NodeValues:
        """The exact solution on the mesh; in time, what is recorded of it."""
        return self.state_of(self.z(coordinates), linear_solver)

    def state_of(self, z: Any, linear_solver: AbstractLinearSolver | None = None) -> NodeValues:
        """The same for values of the unknowns."""
        return self.record.solve_or_raise(self.forward, z, linear_solver)

    def default_solver(
        self, solver: AbstractLinearSolver | None = None, *, num_rhs: int = 1
    ) -> AbstractLinearSolver:
        """The linear solver that was asked for, or the one that suits the problem and many draws.

        Of several experiments each has a matrix of its own, and multigrid is made for one.
        """
        if not self.others:
            return choose_solver(
                self.forward,
                solver,
                num_rhs=num_rhs * self.record.num_shared,
                num_matrices=MANY_DRAWS,
                z=self.median,
            )
        return SparseLU() if solver is None or isinstance(solver, Automatic) else solver

    def median(self) -> dict[str, Any]:
        """What the equation reads where all unknowns have their medians; in time, at first."""
        return self.record.first(self.z(jnp.zeros(self.num_coordinates)))

    def solve(self, coordinates: Coordinates, linear_solver: AbstractLinearSolver) -> NodeValues:
        """The exact solution, all NaN where there is none: one draw must not stop the others."""
        return self.record.solve(self.forward, self.z(coordinates), linear_solver)

    def states(self, state: Float[Array, " every"]) -> list[NodeValues]:
        """The state of each experiment."""
        return jnp.split(state, len(self.forwards)) if self.others else [state]

    def predict(self, state: NodeValues, z: PyTree) -> Float[Array, " sensor"]:
        """What the sensors see of a state, without noise and effects of covariates."""
        if self.linear is not None:
            return self.linear @ state
        each = zip(self.sensors, self.forwards, self.states(state), strict=True)
        return concatenate_parts(
            [sensors.predict(forward, own, z) for sensors, forward, own in each]
        )

    def simulate(self, z: Any, *, key: PRNGKeyArray | None = None) -> Float[Array, " sensor"]:
        """What the sensors read where the unknowns have these values, with noise if given a key.

        `z` names every unknown: numbers and vectors as they are; a field by `rz.nodal(values)`,
        `rz.per_cell(values)`, a function of the place, or a number.
        """
        predicted = self.predict(self.state_of(z), z)
        if key is None:
            return self.likelihood.location(predicted, z)
        return self.likelihood.sample(key, predicted, z)

    def noise_sd(self, z: PyTree) -> Float[Array, " sensor"]:
        """The scale of additive noise of each observation, in the precision of the state."""
        return self.likelihood.noise_sd(self.observed, z)

    def whiten(self, values: Float[Array, " sensor *column"], z: PyTree) -> Float[Array, "..."]:
        """Differences at the sensors in units in which noise is independent and of sd one."""
        return self.likelihood.factor(self.observed, z).white(values)

    def log_likelihood(self, coordinates: Coordinates, state: NodeValues) -> Float[Array, ""]:
        """The log-density of the observations for a state."""
        z = self.z(coordinates)
        return self.likelihood.log_prob(self.observed, self.predict(state, z), z)

    def log_prob(self, coordinates: Coordinates) -> Float[Array, ""]:
        """The log-posterior up to a constant, by an exact solve.

        Where there is no solution it raises; in compiled code it is minus infinity there.
        """
        state = self.state(coordinates)
        likelihood = self.log_likelihood(coordinates, state)
        result = self.latents.log_prior(coordinates) + likelihood
        return jnp.where(jnp.all(jnp.isfinite(state)), result, -jnp.inf)

    def explain(self, coordinates: Coordinates, where: str) -> NoReturn:
        """Raise where the log-density is not finite, and say what is wrong."""
        self.state(coordinates)  # says so itself where it is the solve
        raise RieszError(
            f"the log-density is not finite where {where}: look for noise of zero or observations "
            "far outside their likelihood, or pass start=..."
        )

    def check_solved(
        self, draws: Float[Array, "draw coordinate"], values: Float[Array | np.ndarray, "draw ..."]
    ) -> None:
        """Raise where compiled solves came out as NaN, and say what is wrong there."""
        bad = np.flatnonzero(np.isnan(np.asarray(values)).reshape(len(draws), -1).any(axis=1))
        if bad.size:
            self.explain(draws[bad[0]], f"it was solved for, at {bad.size} of {len(draws)} draws")

    def describe(self) -> str:
        """The problem in words: mesh, equation, unknowns with their priors, data and noise."""
        parts = self.forwards, self.latents, self.observations, self.likelihood
        return problem_text(*parts, self.record.axis)

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
            coordinates = jnp.asarray(drawn)
            z = self.z(coordinates)
            for name in self.latents.names:
                numpyro.deterministic(name, self.latents.latents[name].display_value(z[name]))
            seen = self.predict(self.state(coordinates), z)
            predicted = numpyro.deterministic("predicted", seen)
            scatter = self.likelihood.distribution(jnp.asarray(predicted), z)
            numpyro.sample("observed", scatter, obs=self.observed)

        return model


def in_precision(tree: Tree, dtype: DTypeLike) -> Tree:
    """The same with all its floating-point arrays in one precision."""

    def cast(leaf):
        return leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf

    return jax.tree.map(cast, tree)
