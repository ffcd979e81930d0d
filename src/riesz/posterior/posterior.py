"""What every fit returns: a distribution of the unknowns, and the states that go with it."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.default_solver import one_by_one
from riesz.fem.linear.linear_solve import AbstractLinearSolver, Automatic, SparseLU
from riesz.fem.time.time_stepping import integrate_in_time
from riesz.notes import Note
from riesz.penalty.rows import full_precision
from riesz.posterior.checks import ImportanceCheck, SurrogateError
from riesz.posterior.family import AbstractGaussian, Draws, EmpiricalDraws
from riesz.posterior.linear_states import NodeDraws, linear_states
from riesz.posterior.mesh_shift import MeshShift
from riesz.priors.fields import FieldCoefficient
from riesz.priors.latent import ManyZ
from riesz.priors.regions import RegionValues
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import SteadySurrogate, nodal_states
from riesz.surrogate.trajectory import Trajectory

States = Float[Array, "draw node"]
Moment = Float[np.ndarray, "*shape"]
Read = Callable[[Float[Array, " dof"]], Float[Array, " place"]]
"""What is read off a state."""

NUM_DRAWS = 4000
"""Of a family, for moments and quantiles of the unknowns: they cost no solve."""

AT_ONCE = 50
"""Draws that are solved for together where there are many."""

FEWEST_DRAWS = 2

EXACT, MARGINAL = "exact", "marginal"
"""The density of a problem itself, and that without unknowns which are integrated out; there are
others."""


class AbstractStateMap(eqx.Module):
    """A state for each draw of the unknowns.

    A key comes in because a state need not be a function of the unknowns: where the equation
    holds only roughly, it is a draw itself.
    """

    @abstractmethod
    def __call__(self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws) -> States:
        """The states at the mesh nodes."""

    def from_outside(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws, z: ManyZ
    ) -> States:
        """The same, asked for by Python: solves need not be called from within a program.

        `z` belongs to the coordinates.
        """
        return evaluate_states(self, problem, key, coordinates)

    def record_in_time(
        self,
        problem: InverseProblem,
        key: PRNGKeyArray,
        z: PyTree,
        under: InverseProblem,
        read: Read,
        solver: AbstractLinearSolver,
    ) -> Float[Array, "time place"]:
        """What is read off the states of one draw at all times, with the stresses of `under`: of
        exact ones, where the equation holds."""
        transient = under.in_time.transient(under.forward)
        result = integrate_in_time(transient, z, solver, lambda state, _: read(state))
        return jnp.where(jnp.all(result.solved), result.recorded, jnp.nan)


@eqx.filter_jit
def evaluate_states(
    states: AbstractStateMap, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
) -> States:
    return states(problem, key, coordinates)


class ExactStates(AbstractStateMap):
    """The equation is solved for each draw, on a host one after the other.

    Where it has no solution the state is NaN: one draw must not stop the others.
    """

    linear_solver: AbstractLinearSolver = Automatic()

    def __call__(self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws) -> States:
        def state(one: Float[Array, " coordinate"]) -> Float[Array, " node"]:
            return problem.solve(one, self.linear_solver)

        return one_by_one(state, coordinates, problem.forward.num_free)

    def from_outside(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws, z: ManyZ
    ) -> States:
        solver = problem.default_solver(self.linear_solver)
        result = linear_states(problem, z) if isinstance(solver, SparseLU) else None
        if result is None:
            return evaluate_states(ExactStates(solver), problem, key, coordinates)
        return on_device(result)

    def in_parts(self, problem: InverseProblem, coordinates: Draws) -> NodeDraws:
        """Of any number of draws, some at a time: few matrices are held, and programs are few."""
        result = []
        for start in range(0, len(coordinates), AT_ONCE):
            part = np.asarray(coordinates[start : start + AT_ONCE])
            whole = jnp.asarray(np.resize(part, (AT_ONCE, part.shape[1])))
            z = latent_values(problem, whole)
            result.append(np.asarray(self.from_outside(problem, jr.key(0), whole, z))[: len(part)])
        return np.concatenate(result)


@eqx.filter_jit
def latent_values(problem: InverseProblem, coordinates: Draws) -> ManyZ:
    return jax.vmap(problem.z)(coordinates)


class SurrogateStates(AbstractStateMap):
    """The surrogate at all mesh nodes, or its record in time: no equation is solved."""

    surrogate: SteadySurrogate | Trajectory

    def __call__(self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws) -> States:
        with full_precision():
            if isinstance(self.surrogate, Trajectory):
                own = self.surrogate
                return jax.vmap(lambda one: surrogate_record(problem, own, one))(coordinates)
            return nodal_states(self.surrogate, problem.forward.cells.domain.nodes.T, coordinates)


def surrogate_record(
    problem: InverseProblem, surrogate: Trajectory, coordinates: Float[Array, " coordinate"]
) -> Float[Array, " record"]:
    """What the sensors of a problem in time would record of a surrogate."""
    z = problem.z(coordinates)
    return problem.in_time.emulate(problem.forward, surrogate, coordinates, z)


def engine_label(method: str, density: str) -> str:
    """A method and a density in one word; the exact one goes without saying."""
    return method if density == EXACT else f"{method}({density})"


def density_in(engine: str) -> str:
    """The density of such a label."""
    return engine.partition("(")[2].rstrip(")") or EXACT


class Posterior(eqx.Module):
    """The unknowns of a problem after its observations were seen.

    `distribution` is over the standard normal coordinates; `problem.z` turns them into the
    quantities of the equation. `history` holds the curves of a training or the statistics of a
    sampler, `notes` what a reader of the results should be warned of. `check` says whether q is the
    posterior, `surrogate_error` how well an emulated state is the exact one, `mesh_shift` how far
    off the discretisation is, where that was asked.
    """

    problem: InverseProblem
    distribution: AbstractGaussian | EmpiricalDraws
    states: AbstractStateMap
    history: dict[str, Array] = eqx.field(default_factory=dict)
    engine: str = eqx.field(static=True, default="")
    seed: int | None = eqx.field(static=True, default=None)
    notes: tuple[Note, ...] = eqx.field(static=True, default=())
    check: ImportanceCheck | None = None
    surrogate_error: SurrogateError | None = None
    mesh_shift: MeshShift | None = None

    def __check_init__(self):
        result, wanted = self.distribution.num_coordinates, self.problem.num_coordinates
        if result != wanted:
            raise RieszError(
                f"the distribution has {result} coordinates, but the problem has {wanted}."
            )

    @property
    def density(self) -> str:
        """Which density of the problem it is of, by its name."""
        return density_in(self.engine)

    @property
    def shift(self) -> MeshShift | None:
        """What is added to states that are shown; nothing where the mesh is taken as it is."""
        return self.mesh_shift if self.mesh_shift and self.mesh_shift.is_corrected else None

    @property
    def log_evidence(self) -> float | None:
        """The logarithm of the data's density under the whole prior, where the engine gives it.

        `marginal` does: exactly, or by importance sampling of what it does not integrate out.
        """
        value = self.history.get("log_evidence")
        return float(value) if value is not None and np.isfinite(float(value)) else None

    def sample(self, key: PRNGKeyArray, num_draws: int) -> Draws:
        """Draws of the standard normal coordinates."""
        return self.distribution.sample(key, num_draws)

    def coordinate_mean(self) -> Float[Array, " coordinate"]:
        """The mean of the coordinates: exact for Gaussians, that of all draws for samplers."""
        return self.distribution.mean

    def coordinate_covariance(self) -> Float[Array, "coordinate coordinate"]:
        """The covariance matrix of the coordinates."""
        return self.distribution.covariance()

    def values(
        self, name: str, *, num_draws: int | None = None, seed: int = 0
    ) -> Float[Array, " draw *shape"]:
        """Draws of an unknown in its own units, a field at the mesh nodes.

        By default these are all that a sampler made. `rz.predict(..., keep_draws=True)` gives
        those of states, fluxes and fields elsewhere.
        """
        check_unknown(self.problem, name)
        coordinates = representative_draws(self, jr.key(seed), num_draws)
        return unknown_draws(self.problem, name, coordinates)

    def mean(self, name: str, *, num_draws: int | None = None, seed: int = 0) -> Moment:
        """The posterior mean of an unknown, of a field at the mesh nodes."""
        values = self.values(name, num_draws=num_draws, seed=seed)
        return np.asarray(np.mean(np.asarray(values), axis=0))

    def sd(self, name: str, *, num_draws: int | None = None, seed: int = 0) -> Moment:
        """Its posterior standard deviation."""
        values = self.values(name, num_draws=num_draws, seed=seed)
        return np.asarray(np.std(np.asarray(values), axis=0, ddof=1))

    def quantiles(
        self,
        name: str,
        levels: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        num_draws: int | None = None,
        seed: int = 0,
    ) -> Float[np.ndarray, " level *shape"]:
        """Its posterior quantiles."""
        check_levels(levels)
        values = self.values(name, num_draws=num_draws, seed=seed)
        return np.quantile(np.asarray(values), levels, axis=0)

    def __repr__(self) -> str:
        names = ", ".join(self.problem.latents.names)
        return f"Posterior({names} by {self.engine}, {type(self.distribution).__name__})"


@eqx.filter_jit
def unknown_draws(
    problem: InverseProblem, name: str, coordinates: Draws
) -> Float[Array, " draw *shape"]:
    latent, own = problem.latents.latents[name], problem.latents.slices()[name]
    return jax.lax.map(
        lambda one: latent.display_value(latent.entry(latent.value(one[own]))), coordinates
    )


def check_levels(levels: Sequence[float]) -> None:
    if not all(0 <= level <= 1 for level in levels):
        raise RieszError(f"quantile levels are {tuple(levels)}: they lie between 0 and 1.")


def representative_draws(posterior: Posterior, key: PRNGKeyArray, num_draws: int | None) -> Draws:
    """So many draws; without a number, all of a sampler's and plenty of a family.

    A sampler has no more than it made: to take some of them twice would tell nothing.
    """
    distribution = posterior.distribution
    if num_draws is not None and num_draws < FEWEST_DRAWS:
        raise RieszError(
            f"num_draws is {num_draws}: a mean and its spread need at least {FEWEST_DRAWS} draws; "
            "posterior.sample(key, 1) gives a single one."
        )
    if isinstance(distribution, EmpiricalDraws) and (
        num_draws is None or num_draws >= distribution.num_draws
    ):
        return distribution.all()
    return distribution.sample(key, NUM_DRAWS if num_draws is None else num_draws)


def check_unknown(problem: InverseProblem, name: str) -> None:
    if name not in problem.latents.names:
        raise RieszError(
            f"{name!r} is no unknown of the problem: it has {', '.join(problem.latents.names)}."
        )


def is_field(problem: InverseProblem, name: str) -> bool:
    """Whether an unknown is a function of place."""
    return isinstance(problem.latents.latents[name].coefficient(name), FieldCoefficient)


def regions_of(problem: InverseProblem, name: str) -> tuple[str, ...]:
    """The regions for each of which an unknown is one number; none for any other unknown."""
    latent = problem.latents.latents[name]
    return latent.names if isinstance(latent, RegionValues) else ()


def label_of(problem: InverseProblem, name: str, index: int, count: int) -> str:
    """What to call one of the numbers of an unknown: by its region, or counted."""
    regions = regions_of(problem, name)
    if not regions and count == 1:
        return name
    return f"{name}[{regions[index] if regions else index}]"
