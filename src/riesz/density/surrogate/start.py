"""What trainings of a surrogate start from."""

import dataclasses
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.density.base import require_plain_data
from riesz.errors import RieszError
from riesz.method.settings import Count, InnerProduct, Settings, as_gram
from riesz.penalty.gram import check_energy
from riesz.penalty.in_time import StepPenalty, step_penalty
from riesz.penalty.penalty import AbstractPenalty, WeakFormPenalty, weak_form_penalty
from riesz.penalty.rows import values_at_nodes
from riesz.posterior.density import AbstractRecordDensity
from riesz.posterior.family import antithetic
from riesz.posterior.posterior import surrogate_record
from riesz.problem import linearity
from riesz.problem.problem import InverseProblem
from riesz.surrogate.networks import TrunkBranch, trunk_branch
from riesz.surrogate.surrogate import (
    COORDINATES,
    BoundaryValues,
    Frame,
    SteadySurrogate,
    affine_in_coordinates,
    boundary_values,
    frame_of,
)
from riesz.surrogate.trajectory import BEGUN, Trajectory, lifting_in_time, responses, trajectory

AnySurrogate = SteadySurrogate | Trajectory

WHOLE_MESH_NODES = 2000
"""Meshes up to here are evaluated whole in each step: cheaper than quadrature on coarse levels, and
consistent with exact solves where their discretisation error matters most."""


class NormSettings(Settings):
    """How a norm by patches is made; `gram` is the inner product behind it, for rough
    coefficients."""

    patch_nodes: Count = 64
    coarse_patch_nodes: Count = 25
    gram: InnerProduct = None

    @abstractmethod
    def patches_at_once(self) -> int:
        """How many are drawn together."""


class PatchSettings(NormSettings):
    """The same, and what is drawn."""

    num_patches: Count = 4
    num_samples: Count = 16  # of the unknowns in a batch

    def patches_at_once(self) -> int:
        return self.num_patches


class Batches(NamedTuple):
    """Patches and samples of the unknowns that are met together, and how often in a round."""

    num_patches: int
    num_samples: int
    num_batches: int


ON_HOST = Batches(4, 16, 48)

ON_ACCELERATORS = ((64, 256), (32, 128), (16, 64))
"""Patches and samples: with the most, an accelerator takes about as long as with a few."""

BYTES_EACH, MEMORY_SHARE = 5e6, 0.75
"""What a patch and a sample take with 256 functions of place, as many as there may become, and the
part of a device's memory that all of them may."""


def fitting_batches(device: Any) -> Batches:
    """The largest for which there is memory, as many samples in all as on a host."""
    if device.platform == "cpu":
        return ON_HOST
    memory = (device.memory_stats() or {}).get("bytes_limit", 0)
    fits = [
        pair for pair in ON_ACCELERATORS
        if pair[0] * pair[1] * BYTES_EACH <= MEMORY_SHARE * memory
    ]  # fmt: skip
    patches, samples = (fits or ON_ACCELERATORS[-1:])[0]
    return Batches(patches, samples, batches_of(samples))


def batches_of(num_samples: int) -> int:
    """How many there are for as many samples in all as on a host."""
    return -(-ON_HOST.num_samples * ON_HOST.num_batches // num_samples)


SECONDS = 1e-3
"""Of a value, roughly, on any mesh."""

TRAINING = 0.02
"""Seconds of a training step by mini-patches, on any mesh, for ten unknown numbers."""


def training_cost(solve: float, problem: InverseProblem) -> float:
    """Seconds of computing, roughly, of a training and a check by exact solves."""
    return TRAINING * 5000 * (1 + problem.num_coordinates / 10) + solve * 1000


def check_nested(problem: InverseProblem, engine: str, gram: Any) -> None:
    """Raise where there are no mini-patches, no norm, or no surrogate of the prescribed values."""
    require_plain_data(problem, engine)
    if problem.forward.space.axisymmetric:
        raise RieszError(
            f"{engine} works on mini-patches, which know no axis, and the problem is axisymmetric: "
            "use the density exact."
        )
    if problem.hierarchy is None:
        raise RieszError(
            f"{engine} works on mini-patches of a hierarchy of meshes, and the problem has only "
            "one: build it on rz.hierarchy(coarse_mesh, levels), set levels to 2 or more in a "
            "problem file, or use the density exact."
        )
    if problem.record.begins_steady:
        check_energy(problem.forward, as_gram(gram))
    if problem.time is None:
        affine_in_coordinates(problem.forward, problem.latents, None)


def default_penalty(problem: InverseProblem, settings: NormSettings) -> WeakFormPenalty:
    """Mini-patches of the problem's hierarchy of meshes."""
    check_nested(problem, settings.name, settings.gram)
    own, made = patches(problem, settings), penalties_of(problem)
    if own["gram"] is not None:  # it has arrays, which are no key
        return weak_form_penalty(problem.forward, problem.hierarchy, **own)
    key = tuple(own.values())
    if key not in made:
        made.clear()  # tables of one kind are enough to hold
        made[key] = weak_form_penalty(problem.forward, problem.hierarchy, **own)
    return made[key]


@linearity.once_per_problem
def penalties_of(problem: InverseProblem) -> dict[tuple, WeakFormPenalty]:
    """Those made so far: to set one up takes as long as some rounds of a fit."""
    return {}


def penalty_in_time(problem: InverseProblem, settings: NormSettings) -> StepPenalty:
    """The same with steps."""
    check_nested(problem, settings.name, settings.gram)
    time, origin = problem.in_time, jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    transient, z = time.transient(problem.forward), problem.z(origin)
    return step_penalty(transient, problem.hierarchy, z, **patches(problem, settings))


def patches(problem: InverseProblem, settings: NormSettings) -> dict[str, Any]:
    return {
        "num_patches": settings.patches_at_once(),
        "patch_nodes": min(settings.patch_nodes, problem.forward.num_free),
        "coarse_patch_nodes": settings.coarse_patch_nodes,
        "gram": as_gram(settings.gram),
        "whole_mesh": problem.forward.space.num_dofs <= WHOLE_MESH_NODES,
    }


def initial_surrogate(
    problem: InverseProblem, key: PRNGKeyArray, *, width: int, features: int
) -> SteadySurrogate:
    """A factorised network, in the frame of the mesh and of the observed values."""
    forward = problem.forward
    boundary = boundary_of(problem)
    network = initial_network(problem, key, width, features)
    bare = SteadySurrogate(network, boundary, frame_of(forward.space.mesh, 0.0, forward.dtype))
    return dataclasses.replace(bare, frame=frame_in_units(problem, bare))


@linearity.once_per_problem
def boundary_of(problem: InverseProblem) -> BoundaryValues:
    return boundary_values(problem.forward, problem.latents)


def initial_network(
    problem: InverseProblem, key: PRNGKeyArray, width: int, features: int
) -> TrunkBranch:
    forward = problem.forward
    return trunk_branch(
        forward.space.mesh.dim,
        problem.num_coordinates,
        key,
        linear=linear_coordinates(problem),
        width=width,
        features=features,
        dtype=forward.dtype,
    )


def frame_in_units(problem: InverseProblem, bare: AnySurrogate) -> Frame:
    """The frame of the mesh, and of what is observed beside the lifting."""
    forward = problem.forward
    lifted = surrogate_at_sensors(problem, bare, jnp.zeros(problem.num_coordinates, forward.dtype))
    scale = float(jnp.sqrt(jnp.mean((problem.observed - lifted) ** 2)))
    scale = scale or float(np.abs(problem.observed).max()) or 1.0
    return frame_of(forward.space.mesh, scale, forward.dtype)


def initial_trajectory(
    problem: InverseProblem,
    penalty: StepPenalty,
    key: PRNGKeyArray,
    *,
    width: int,
    features: int,
) -> Trajectory:
    """The same in time, with what wells do: after one step, in the end and in between."""
    forward, time = problem.forward, problem.in_time
    quickest = float(penalty.reactions.max())
    slowest = quickest * float(time.axis.steps.min() / np.ptp(time.axis.times))
    beside = responses(forward, (slowest, float(np.sqrt(slowest * quickest)), quickest))
    network = initial_network(problem, key, width, features - beside.shape[1])
    lifting = lifting_in_time(forward, problem.latents, np.asarray(penalty.stepping.times))
    frame = frame_of(forward.space.mesh, 0.0, forward.dtype)
    begins = time.initial is not None
    bare = trajectory(forward, network, frame, lifting, beside, begins=begins)
    return dataclasses.replace(bare, frame=frame_in_units(problem, bare))


def linear_coordinates(problem: InverseProblem) -> Int[np.ndarray, " linear"]:
    """Coordinates in which the state is affine; in time all states, the first one included."""
    linear = linearity.affine_coordinates(problem)
    if problem.time is None:
        return linear
    return np.intersect1d(linear, linearity.affine_beside_the_equation(problem))


def surrogate_at_sensors(
    problem: InverseProblem, surrogate: AnySurrogate, coordinates: Float[Array, " coordinate"]
) -> Float[Array, " sensor"]:
    """The surrogate as exact solves observe a state: interpolated from the nodes around."""
    if isinstance(surrogate, Trajectory):
        return problem.operator @ surrogate_record(problem, surrogate, coordinates)
    dofs = problem.operator.dofs
    x = problem.forward.cells.domain.nodes[:, dofs.ravel()].T
    values = values_at_nodes(surrogate, dofs.ravel(), x, {COORDINATES: coordinates})
    return problem.operator.combine(values.reshape(dofs.shape))


@eqx.filter_jit
def reference_penalty(
    problem: InverseProblem, penalty: AbstractPenalty | StepPenalty, surrogate: AnySurrogate
) -> Float[Array, ""]:
    """The penalty of the lifting alone, over the prior: the unit of the loss."""
    key, draw_key = jr.split(jr.key(0))
    draws = antithetic(draw_key, 64, problem.num_coordinates, problem.forward.dtype)
    zs = equation_inputs(problem, draws)
    nothing = eqx.tree_at(lambda s: s.frame.output_scale, surrogate, replace_fn=jnp.zeros_like)
    values = jax.lax.map(lambda one: penalty(one, nothing, zs), jr.split(key, 16))
    return jnp.mean(values)


def equation_inputs(
    problem: InverseProblem, draws: Float[Array, "draw coordinate"]
) -> dict[str, PyTree]:
    """What the equation and the surrogate read, for each draw."""

    def one(coordinates):
        z = problem.z(coordinates)
        initial = problem.record.initial_state(problem.forward, z)
        return {**z, COORDINATES: coordinates} | ({} if initial is None else {BEGUN: initial})

    return jax.vmap(one)(draws)


class SurrogateDensity(AbstractRecordDensity):
    """The posterior with a surrogate for the solution."""

    problem: InverseProblem
    surrogate: AnySurrogate

    def record(self, coordinates: Float[Array, " coordinate"]) -> Float[Array, " sensor"]:
        return surrogate_at_sensors(self.problem, self.surrogate, coordinates)

    def seconds(self) -> float:
        return SECONDS
