"""What a finer discretisation adds: to what is predicted at the sensors, and to the state anywhere.

A posterior that is corrected by it was fitted with that added to the state at the sensors. Its
states are those of the mesh; where they are shown, it is added to them.
"""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.fem.elements.space import P2, point_operator
from riesz.mesh.facets import cell_edges
from riesz.mesh.mesh import Mesh
from riesz.notes import Note, Severity
from riesz.observe.effects import WithEffects
from riesz.observe.joint import Joint
from riesz.observe.likelihood import AbstractLikelihood, AbstractNoise, Scale, scale_at
from riesz.problem.problem import InverseProblem
from riesz.wording import NOTABLE_ERROR

AtSensors = Float[np.ndarray, " sensor"]


class Correction(eqx.Module):
    """What a finer discretisation adds to the predictions, and the sd of what is unknown of it."""

    at_sensors: AtSensors
    sd: AtSensors

    @classmethod
    def of_order(cls, difference: AtSensors, order: int) -> "Correction":
        """By Richardson's extrapolation; unknown is whether the order is lower by one."""
        whole = difference / (1 - 0.5**order)
        lower = difference / (1 - 0.5 ** (order - 1)) if order > 1 else 2 * whole
        return cls(whole, np.abs(lower - whole) / 2)


class MeshShift(eqx.Module):
    """By how much the discretisation moves what is predicted.

    `mesh` and `steps` are what finer ones add to the state at the sensors, steps nothing where it
    is steady; `in_noise` is how far that moves what is expected of each observation, in standard
    deviations of its noise. `states` is what they add to the state as a whole, of each experiment
    or at each time: by values at nodes, and behind them half-way between two; in time, where it is
    only told and not corrected, the largest of all times. A share of it is unknown, with the sd
    `unknown`. It `settles` where a next refinement would add clearly less.
    """

    mesh: Correction
    steps: Correction
    in_noise: AtSensors
    states: Float[np.ndarray, "row point"]
    unknown: float
    scale: float  # of what is predicted: how far that goes from the lowest to the highest
    is_corrected: bool = eqx.field(static=True, default=False)
    settles: bool = eqx.field(static=True, default=True)

    @property
    def at_sensors(self) -> AtSensors:
        """To be added to what is predicted."""
        return self.mesh.at_sensors + self.steps.at_sensors

    @property
    def sd(self) -> AtSensors:
        """Of what is not known of the error."""
        return np.hypot(self.mesh.sd, self.steps.sd)

    @property
    def worst(self) -> int:
        """The observation at which it is largest."""
        return int(np.argmax(self.in_noise))

    @property
    def is_notable(self) -> bool:
        return bool(self.in_noise[self.worst] > NOTABLE_ERROR)

    @property
    def is_trusted(self) -> bool:
        """Whether the mesh resolves the state so far that the error can be told by finer solves."""
        return self.settles and bool(np.abs(self.at_sensors).max() < TRUSTED * self.scale)

    def note(self, labels: Sequence[str] | None = None) -> Note:
        """In one sentence, with what observations are called."""
        mesh, steps = (abs(one.at_sensors[self.worst]) for one in (self.mesh, self.steps))
        is_wrong = self.is_notable and not self.is_corrected
        return Note(
            "mesh_error",
            Severity.WARNING if is_wrong else Severity.INFO,
            where=f"observation {self.worst}" if labels is None else labels[self.worst],
            off=float(self.in_noise[self.worst]),
            rms=float(np.sqrt(np.mean(self.in_noise**2))),
            by_steps=bool(steps > mesh),
            is_corrected=self.is_corrected,
            is_trusted=self.is_trusted,
        )

    def __str__(self) -> str:
        return str(self.note())

    def at_nodes(self, mesh: Mesh) -> Float[np.ndarray, "row node"]:
        return self.states[:, : mesh.num_nodes]

    def at(
        self, mesh: Mesh, points: ArrayLike | None, tolerance: float | None = None
    ) -> Float[np.ndarray, "row place"]:
        """At points, or at the nodes of the mesh."""
        if points is None:
            return self.at_nodes(mesh)
        operator = point_operator(P2(mesh), points, tolerance=tolerance)
        return np.asarray(operator.to_scipy() @ self.states.T).T

    def bulges(self, mesh: Mesh, row: int) -> Float[np.ndarray, "cell local_edge"]:
        """How far it lies above the line between two nodes of a cell, half-way."""
        (ends, of_cells), state = cell_edges(mesh), self.states[row]
        return (state[mesh.num_nodes :] - state[ends].mean(axis=1))[of_cells]

    def worst_in_cells(self, mesh: Mesh) -> Float[np.ndarray, " cell"]:
        """The largest error, at any time or in any experiment."""
        points = np.hstack([mesh.cells, mesh.num_nodes + cell_edges(mesh)[1]])
        return np.abs(self.states).max(axis=0)[points].max(axis=1)

    def shares(self, num_draws: int, seed: int) -> Float[np.ndarray, "draw 1"]:
        """How much of it there is in each draw, about one."""
        drawn = np.random.default_rng([seed, num_draws]).normal(size=(num_draws, 1))
        return 1 + self.unknown * drawn


TRUSTED = 0.25
"""Of the range of predictions: larger errors are not told by finer solves."""


class Wider(eqx.Module):
    """A scale of noise, and beside it an independent error that is known for each sensor."""

    scale: Scale
    beside: Float[Array, " sensor"]

    def __call__(self, z: PyTree) -> Float[Array, " sensor"]:
        return jnp.hypot(scale_at(self.scale, z), self.beside)


def with_offset(
    likelihood: AbstractLikelihood, offset: Float[Array, " sensor"], sd: Float[Array, " sensor"]
) -> AbstractLikelihood:
    """Of a state to which this is added at the sensors, known but for errors of that sd.

    Where the scatter is no noise of an sd, as of counts, it stays as it is.
    """
    if isinstance(likelihood, Joint):
        each = zip(likelihood.cut(offset), likelihood.cut(sd), strict=True)
        parts = tuple(with_offset(one, by, error) for (one, by), (_, error) in each)
        return dataclasses.replace(likelihood, each=parts)
    effects = likelihood if isinstance(likelihood, WithEffects) else WithEffects(likelihood)
    fresh = wider = effects.base
    if isinstance(fresh, AbstractNoise):
        wider = eqx.tree_at(lambda own: own.sd, fresh, Wider(fresh.sd, sd))
    values = {one.name: getattr(effects, one.name) for one in dataclasses.fields(effects)}
    return WithEffects(**values | {"base": wider, "offset": offset, "fresh": fresh})


def with_mesh_error(problem: InverseProblem, shift: MeshShift) -> InverseProblem:
    """The problem with that added to the state at the sensors, and what is unknown to the noise."""
    parts = on_device(shift.at_sensors), on_device(shift.sd)
    likelihood = with_offset(problem.likelihood, *map(jnp.asarray, parts))
    return dataclasses.replace(problem, likelihood=likelihood)
