"""How far off is the discretisation? By one finer solve, where the unknowns have their means.

The difference of two solutions of the same equation, on quadratic elements or a refined mesh and on
the mesh at hand, is the error of the latter but for what the finer one has left. Of the steps in
time likewise, by half steps. Richardson's extrapolation says how much is left where both converge
with a known order; the difference itself is then divided by 1 - 2^-order.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PyTree

from riesz.arrays import on_device
from riesz.errors import RieszError, SolveError
from riesz.fem.time.scheme import EULER
from riesz.notes import Note, Severity
from riesz.observe.likelihood import AbstractLikelihood
from riesz.posterior.posterior import ExactStates, Posterior, latent_values
from riesz.problem.finer import on_finer_elements, with_half_steps
from riesz.problem.problem import InverseProblem
from riesz.wording import NOTABLE_ERROR

AtSensors = Float[np.ndarray, " sensor"]

LEFT = 1 / 6
"""Of their difference from linear elements, what quadratic ones have left at corners and wells."""

MOST_UNKNOWNS = 500_000
"""Of finer elements."""


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
    """By how much the discretisation moves what is predicted at the sensors.

    `mesh` and `steps` are what finer ones add to the state there, steps nothing where it is steady;
    `in_noise` is how far that moves what is expected of each observation, in standard deviations of
    its noise.
    """

    mesh: Correction
    steps: Correction
    in_noise: AtSensors

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

    def note(self, labels: Sequence[str] | None = None) -> Note:
        """In one sentence, with what observations are called."""
        mesh, steps = (abs(one.at_sensors[self.worst]) for one in (self.mesh, self.steps))
        return Note(
            "mesh_error",
            Severity.WARNING if self.is_notable else Severity.INFO,
            where=f"observation {self.worst}" if labels is None else labels[self.worst],
            off=float(self.in_noise[self.worst]),
            rms=float(np.sqrt(np.mean(self.in_noise**2))),
            by_steps=bool(steps > mesh),
        )

    def __str__(self) -> str:
        return str(self.note())


def mesh_error(posterior: Posterior) -> MeshShift:
    """Of a posterior, at the mean of its coordinates."""
    return discretisation_error(posterior.problem, posterior.coordinate_mean())


def discretisation_error(
    problem: InverseProblem, coordinates: Float[Array, " coordinate"]
) -> MeshShift:
    """For values of the unknowns: quadratic elements where there are some, or a refined mesh."""
    forward, rows = problem.forward, on_device(np.asarray(coordinates)[None])
    element = forward.space.element
    count = 2**element.dim * forward.num_free  # seen to before tables of that size are made
    if count > MOST_UNKNOWNS:
        raise RieszError(
            f"finer elements have about {count:,} unknowns, and up to {MOST_UNKNOWNS:,} are solved "
            "for: compare fits on two meshes instead."
        )
    every = latent_values(problem, rows)
    z = jax.tree.map(lambda values: on_device(np.asarray(values)[0]), every)

    def at_sensors(one: InverseProblem) -> AtSensors:
        state = np.asarray(ExactStates().from_outside(one, jr.key(0), rows, every))[0]
        if not np.isfinite(state).all():
            raise SolveError("the equation has no solution there on a finer mesh or in half steps.")
        return np.asarray(noiseless_readings(one, on_device(state), z))

    own = at_sensors(problem)
    finer, is_quadratic = on_finer_elements(problem)
    difference = at_sensors(finer) - own
    mesh = Correction.of_order(difference, element.degree + 1)
    if is_quadratic:
        mesh = Correction(difference, LEFT * np.abs(difference))
    steps = Correction(np.zeros_like(own), np.zeros_like(own))
    if problem.time is not None:
        order = 1 if problem.time.scheme == EULER else 2
        steps = Correction.of_order(at_sensors(with_half_steps(problem)) - own, order)
    shift = on_device(mesh.at_sensors + steps.at_sensors)
    moved = moves_in_noise(problem.likelihood, on_device(own), shift, z)
    return MeshShift(mesh, steps, np.asarray(moved))


@eqx.filter_jit
def noiseless_readings(
    problem: InverseProblem, state: Float[Array, " dof"], z: PyTree
) -> Float[Array, " sensor"]:
    """In one program: operation by operation, each would be compiled by itself."""
    return problem.predict(state, z)


@eqx.filter_jit
def moves_in_noise(
    likelihood: AbstractLikelihood,
    predicted: Float[Array, " sensor"],
    shift: Float[Array, " sensor"],
    z: PyTree,
) -> Float[Array, " sensor"]:
    """How far what is expected of each observation moves, in standard deviations of its noise."""
    moved = likelihood.location(predicted + shift, z) - likelihood.location(predicted, z)
    return jnp.abs(moved / likelihood.noise_sd(predicted, z))
