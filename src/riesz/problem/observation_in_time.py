"""A state in time as an inverse problem knows it: what its sensors would record at all times.

Whole states would be too many to keep. What sensors read is recorded at the end of each step, place
by place, and measurements are read off the record, between two steps along a line.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values, jacobian, with_dirichlet
from riesz.fem.elements.space import Functionals, Operator, functionals
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.problem import BoundaryValueProblem, DirichletPiece
from riesz.fem.root import find_root
from riesz.fem.solve import solve
from riesz.fem.time.axis import TimeAxis
from riesz.fem.time.fixed import residual_of_prescribed
from riesz.fem.time.problem import TransientProblem, at_time, initial_values, with_history
from riesz.fem.time.scheme import SDIRK2, num_stages
from riesz.fem.time.time_stepping import evaluate_initial_state, integrate_in_time
from riesz.observe.observables import AbstractObservable, AtPoints
from riesz.observe.observations import Observations
from riesz.observe.sensors import AbstractSensors
from riesz.surrogate.trajectory import Trajectory, with_one


class InTime(NamedTuple):
    """What a problem in time is told beside its equation."""

    times: Any
    initial: Any = None
    scheme: str = SDIRK2


class Steady(eqx.Module):
    """States that stay as they are: the record of all experiments at one time."""

    forwards: tuple[BoundaryValueProblem, ...]
    axis: None = None
    scheme: None = None
    begins_steady: bool = eqx.field(static=True, default=True)
    num_times: int = eqx.field(static=True, default=1)
    num_shared: int = eqx.field(static=True, default=1)
    num_stages: int = eqx.field(static=True, default=1)

    @property
    def num_recorded(self) -> int:
        return sum(one.space.num_dofs for one in self.forwards)

    def first(self, z: PyTree) -> PyTree:
        return z

    def ends(self, z: PyTree) -> list[PyTree]:
        return [z]

    def read(self, state: Float[Array, " dof"]) -> Float[Array, " dof"]:
        """What is recorded of a state: all of it."""
        return state

    read_transposed = read

    def transient(self, step: BoundaryValueProblem) -> None:
        return None

    def initial_state(self, step: BoundaryValueProblem, z: PyTree) -> None:
        return None

    def equation(
        self, step: BoundaryValueProblem, state: Float[Array, " dof"]
    ) -> BoundaryValueProblem:
        return step

    def boundary_values(self, step: BoundaryValueProblem, z: PyTree) -> Float[Array, " fixed"]:
        return dirichlet_values(step, z)

    def solve(
        self, step: BoundaryValueProblem, z: PyTree, solver: AbstractLinearSolver
    ) -> Float[Array, " record"]:
        """States one after the other; each NaN where there is none."""
        states = []
        for one in self.forwards:
            solution = find_root(one, z, solver)
            state = with_dirichlet(one, solution.free_values, z)
            states.append(jnp.where(solution.converged, state, jnp.nan))
        return concatenate_parts(states)

    def solve_or_raise(
        self, step: BoundaryValueProblem, z: PyTree, solver: AbstractLinearSolver | None
    ) -> Float[Array, " record"]:
        """The same, but raises where there is no solution."""
        return concatenate_parts([solve(one, z, linear_solver=solver) for one in self.forwards])


class ObservationInTime(eqx.Module):
    """A time axis, the state at its beginning, and sensors that record along it."""

    axis: TimeAxis
    initial: DirichletPiece | None  # none: a steady state
    sensors: AbstractSensors  # one a place
    num_places: int = eqx.field(static=True)
    scheme: str = eqx.field(static=True)

    @property
    def operator(self) -> Operator:
        """What is recorded of a state, by sensors that are known to be linear in it."""
        assert self.sensors.operator is not None
        return self.sensors.operator

    def read(self, state: Float[Array, " dof"]) -> Float[Array, " place"]:
        """What is recorded of a state."""
        return self.operator @ state

    def read_transposed(self, row: Float[Array, " place"]) -> Float[Array, " dof"]:
        return self.operator.transpose_product(row)

    @property
    def num_times(self) -> int:
        return len(self.axis.times)

    @property
    def num_shared(self) -> int:
        """Steps that share their matrix, on average."""
        return self.axis.num_steps // self.axis.num_kinds

    @property
    def num_recorded(self) -> int:
        return self.num_times * self.num_places

    @property
    def num_stages(self) -> int:
        """Of each step."""
        return num_stages(self.scheme)

    @property
    def begins_steady(self) -> bool:
        """Whether the first state is one to be solved for."""
        return self.initial is None

    def ends(self, z: PyTree) -> list[PyTree]:
        """What the equation reads at the first time and at the last."""
        return [self.first(z), at_time(z, on_device(self.axis.times[-1]))]

    def first(self, z: PyTree) -> PyTree:
        """What the equation reads when the march begins."""
        return at_time(z, on_device(self.axis.times[0]))

    def equation(
        self, step: BoundaryValueProblem, state: Float[Array, " dof"]
    ) -> BoundaryValueProblem:
        """That of a step, which reads earlier states as well."""
        return with_history(step, jnp.ones((), step.dtype), state)

    def boundary_values(self, step: BoundaryValueProblem, z: PyTree) -> Float[Array, " value"]:
        """On the boundary and at first."""
        then, initial = self.first(z), self.initial
        values = dirichlet_values(step, then)
        return values if initial is None else jnp.append(values, initial_values(initial, then))

    def transient(self, step: BoundaryValueProblem) -> TransientProblem:
        return TransientProblem(step, self.axis, self.initial, self.scheme)

    def solve(
        self, step: BoundaryValueProblem, z: PyTree, solver: AbstractLinearSolver
    ) -> Float[Array, " record"]:
        """The whole record, time by time; NaN where the march came to a halt."""
        result = integrate_in_time(self.transient(step), z, solver, Reader(self.sensors, step))
        return jnp.where(jnp.all(result.solved), result.recorded, jnp.nan).ravel()

    def steady(
        self, step: BoundaryValueProblem, z: PyTree, solver: AbstractLinearSolver
    ) -> Float[Array, " record"]:
        """The record of the first state of a linear equation, if it stayed so at all times."""
        then, nothing = self.first(z), jnp.zeros(step.space.num_dofs, step.dtype)
        values = solver(jacobian(step, nothing, then), -residual_of_prescribed(step, then))
        row = Reader(self.sensors, step)(with_dirichlet(step, values, then), then)
        return jnp.tile(row, len(self.axis.times))

    def of_states(
        self, step: BoundaryValueProblem, states: Float[Array, "time dof"], z: PyTree
    ) -> Float[Array, " record"]:
        """The record of states at all times."""
        reader = Reader(self.sensors, step)
        times = on_device(self.axis.times, states.dtype)
        return jax.vmap(lambda own, when: reader(own, at_time(z, when)))(states, times).ravel()

    def solve_or_raise(
        self, step: BoundaryValueProblem, z: PyTree, solver: AbstractLinearSolver | None
    ) -> Float[Array, " record"]:
        """The same, but raises where there is no solution."""
        reader = Reader(self.sensors, step)
        return solve(self.transient(step), z, linear_solver=solver, record=reader).ravel()

    def initial_state(self, step: BoundaryValueProblem, z: PyTree) -> Float[Array, " dof"] | None:
        """The first state, where it is given."""
        return (
            None
            if self.initial is None
            else evaluate_initial_state(step, self.initial, self.first(z))
        )

    def emulate(
        self,
        step: BoundaryValueProblem,
        surrogate: Trajectory,
        coordinates: Float[Array, " coordinate"],
        z: PyTree,
    ) -> Float[Array, " record"]:
        """The record of a surrogate, at sensors that are linear in the state."""
        operator, begun = self.operator, self.initial_state(step, z)
        flat = operator.dofs.ravel()
        parts = surrogate.at_nodes(flat, step.cells.domain.nodes[:, flat].T)
        basis, lifted = (
            jax.vmap(operator.combine, in_axes=-1, out_axes=-1)(
                part.reshape(*operator.dofs.shape, part.shape[1])
            )
            for part in parts
        )
        # Places by functions first: draws of the coordinates are many.
        ends = slice(None, None, self.num_stages)
        by_hidden = jnp.einsum("pf,thf->tph", basis, surrogate.readouts[ends])
        by_one = jnp.einsum("pc,tcn->tpn", lifted, surrogate.lifting[ends])
        rows = by_hidden @ surrogate.network.hidden(coordinates) + by_one @ with_one(coordinates)
        return (rows if begun is None else rows.at[0].set(operator @ begun)).ravel()


class Reader(eqx.Module):
    """What sensors read off a state, as a record keeps it."""

    sensors: AbstractSensors
    step: BoundaryValueProblem

    def __call__(self, state: Float[Array, " dof"], z: PyTree) -> Float[Array, " place"]:
        return self.sensors.predict(self.step, state, z)


def distinct_places(
    observed: Observations,
) -> tuple[AbstractObservable, Int[np.ndarray, " sensor"]]:
    """What is to be recorded, and which of it each measurement reads: each place only once."""
    what = observed.what
    if not isinstance(what, AtPoints):
        return what, np.arange(observed.num_sensors)
    points, place = np.unique(what.points, axis=0, return_inverse=True)
    return AtPoints(points), place.ravel()


def readings(
    time: ObservationInTime,
    observed: Observations,
    place: Int[np.ndarray, " sensor"],
    dtype: np.dtype,
) -> Functionals:
    """Measurements as rows of an operator on the record."""
    axis, num_places = time.axis, time.num_places
    if observed.when is None:
        raise RieszError(
            "the problem has a time axis, but its observations have no times: give "
            "rz.observations(points, values, times=...)."
        )
    rows = time_rows(axis, axis.numbers(observed.when, "times of observations"), place, num_places)
    if observed.since_when is not None:
        earlier = axis.numbers(observed.since_when, "times since which values have changed")
        rows = rows - time_rows(axis, earlier, place, num_places)
    return functionals(rows, dtype)


def time_rows(
    axis: TimeAxis,
    times: Float[np.ndarray, " sensor"],
    place: Int[np.ndarray, " sensor"],
    num_places: int,
) -> sp.csr_array:
    """Interpolation between the two ends of a step."""
    step, share = axis.locate_times(times, "observations")
    each = np.arange(len(times))
    entries = np.concatenate([1 - share, share])
    columns = np.concatenate([step * num_places + place, (step + 1) * num_places + place])
    shape = (len(times), len(axis.times) * num_places)
    result = sp.coo_array((entries, (np.concatenate([each, each]), columns)), shape=shape).tocsr()
    result.eliminate_zeros()
    return result


def concatenate_parts(parts: list[Float[Array, " _"]]) -> Float[Array, " _"]:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)
