"""How far off is the discretisation? By one finer solve, where the unknowns have their means.

The difference of two solutions of the same equation, on quadratic elements or a refined mesh and on
the mesh at hand, is the error of the latter but for what the finer one has left. Of the steps in
time likewise, by half steps. Richardson's extrapolation says how much is left where both converge
with a known order; the difference itself is then divided by 1 - 2^-order. Where a mesh stabilises
what is carried along, a second refinement tells whether they do.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.linalg import norm

from riesz.arrays import on_device
from riesz.errors import RieszError, SolveError
from riesz.fem.time.scheme import EULER
from riesz.mesh.facets import cell_edges
from riesz.observe.likelihood import AbstractLikelihood
from riesz.posterior.mesh_shift import AtSensors, Correction, MeshShift
from riesz.posterior.posterior import ExactStates, Posterior, latent_values
from riesz.problem.finer import (
    is_upwinded,
    on_finer_elements,
    on_refined_mesh,
    with_half_steps,
)
from riesz.problem.problem import InverseProblem

LEFT = 1 / 6
"""Of their difference from linear elements, what quadratic ones have left at corners and wells."""

LEFT_OF_ORDER = 1 / 4
"""Of what is extrapolated: as much lies between the orders one and two."""

SETTLED = 0.6
"""Of what a first refinement has added, what a second one may: a half where the order is one."""

MOST_UNKNOWNS, MOST_TIMES = 500_000, 100
"""Of finer elements, and times at which so many are held."""


def mesh_error(posterior: Posterior) -> MeshShift:
    """Of a posterior, at the mean of its coordinates."""
    return discretisation_error(posterior.problem, posterior.coordinate_mean())


def discretisation_error(
    problem: InverseProblem, coordinates: Float[Array, " coordinate"]
) -> MeshShift:
    """For values of the unknowns: quadratic elements where there are some, or a refined mesh."""
    forward, rows = problem.forward, on_device(np.asarray(coordinates)[None])
    element = forward.space.element
    parts, times = 2**element.dim, max(1.0, problem.record.num_times / MOST_TIMES)
    count = int(parts * times * forward.num_free)  # before tables of that size are made
    if count > MOST_UNKNOWNS:
        raise RieszError(
            f"finer elements have about {count:,} unknowns, and up to {MOST_UNKNOWNS:,} are solved "
            "for: compare fits on two meshes instead."
        )
    every = latent_values(problem, rows)
    z = jax.tree.map(lambda values: on_device(np.asarray(values)[0]), every)
    ends, _ = cell_edges(forward.space.mesh)
    num_points = forward.space.mesh.num_nodes + len(ends)

    def solve(one: InverseProblem) -> tuple[Float[np.ndarray, "row point"], AtSensors]:
        if one.time is None:
            state = ExactStates().from_outside(one, jr.key(0), rows, every)[0]
            states, seen = one.states(state), noiseless_readings(one, state, z)
        else:
            states, seen = march(one, z)
        whole = np.asarray(states)
        if not np.isfinite(whole).all():
            raise SolveError("the equation has no solution there on a finer mesh or in half steps.")
        if whole.shape[1] < num_points:  # linear between nodes
            whole = np.hstack([whole, whole[:, ends].mean(axis=2)])
        return whole[:, :num_points], np.asarray(seen)

    finer, is_quadratic = on_finer_elements(problem)
    stabilises, order = is_upwinded(problem), element.degree + 1
    meshes = [problem, finer]
    if stabilises and parts * count <= MOST_UNKNOWNS:
        meshes.append(on_refined_mesh(finer))
    (states, own), *others = found = [solve(one) for one in meshes]
    (before, seen_before), (last, seen) = found[-2:]
    mesh, unknown, share = Correction.of_order(seen - seen_before, order), LEFT_OF_ORDER, 0.5**order
    if is_quadratic:
        mesh, unknown, share = Correction(seen - own, LEFT * np.abs(seen - own)), LEFT, 0.0
    mesh = Correction(seen_before - own + mesh.at_sensors, mesh.sd)
    added = before - states + (last - before) / (1 - share)
    is_less = norm(seen - seen_before) <= SETTLED * norm(others[0][1] - own)
    settles = not stabilises or (len(meshes) > 2 and bool(is_less))
    steps = Correction(np.zeros_like(own), np.zeros_like(own))
    if problem.time is not None:
        in_time = 1 if problem.time.scheme == EULER else 2
        halved, seen = solve(with_half_steps(problem))
        steps = Correction.of_order(seen - own, in_time)
        added += (halved[::2] - states) / (1 - 0.5**in_time)
        settles |= bool(norm(mesh.at_sensors) < norm(steps.at_sensors) / 10)
    shift = on_device(mesh.at_sensors + steps.at_sensors)
    moved = moves_in_noise(problem.likelihood, on_device(own), shift, z)
    scale = float(np.ptp(own)) or float(np.abs(own).max())
    return MeshShift(mesh, steps, np.asarray(moved), added, unknown, scale, settles=settles)


@eqx.filter_jit
def march(
    problem: InverseProblem, z: PyTree
) -> tuple[Float[Array, "time dof"], Float[Array, " sensor"]]:
    """The state at all times, and what the sensors see of it."""
    how = (problem, lambda own: own, problem.default_solver())
    states = ExactStates().record_in_time(problem, jr.key(0), z, *how)
    record = problem.in_time.of_states(problem.forward, states, z)
    return states, problem.predict(record, z)


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
