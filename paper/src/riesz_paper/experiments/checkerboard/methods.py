"""The methods that the checkerboard compares: losses, and how each is trained.

The baselines have the best of a few rates (`RATES`), by their energy error on a tuning seed, whose
rows are part of the results; ours has not. Weights of terms and ridges of the baselines, too, are
the best of a few powers of ten or a hundred on another seed than those that are scored.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.penalty.gram import Gram
from riesz_paper.baselines.strong_form.forward import (
    AbstractForwardLoss,
    DeepRitz,
    FirstOrderSystem,
    StrongForm,
)
from riesz_paper.baselines.strong_form.points import inside_points, interface_points
from riesz_paper.experiments.checkerboard.board import SOURCE, Board
from riesz_paper.experiments.checkerboard.network import SCALES, cusp_network, nodal_features
from riesz_paper.experiments.checkerboard.training import Schedule, Trained, train
from riesz_paper.experiments.checkerboard.weak_form import weak_form_loss

RATES = (3e-3, 1e-2, 3e-2)
STEP_POINTS, DRAW_POINTS = 256, 1024
"""Points of a step of Adam, and of a draw for Newton's step."""

RIDGE = 1e-14
"""Where nothing is drawn, only rounding errors need it."""

Losses = tuple[AbstractForwardLoss, AbstractForwardLoss]  # for Adam and for Newton's step


@dataclass(frozen=True)
class Method:
    """A loss, the outputs of the network that it needs, and how it is trained."""

    losses: Callable[[Board], Losses]
    schedule: Schedule
    num_outputs: int = 1
    gram: str = "none"


def weak_form(board: Board) -> Losses:
    loss = weak_form_loss(board, Gram(diffusivity=board.diffusivity))
    return loss, loss


def weak_form_poisson(board: Board) -> Losses:
    loss = weak_form_loss(board, Gram())
    return loss, loss


def with_points(make: Callable[[int], AbstractForwardLoss]) -> Losses:
    return make(STEP_POINTS), make(DRAW_POINTS)


def strong_form(jump_weight: float) -> Callable[[Board], Losses]:
    def losses(board: Board) -> Losses:
        inside = inside_points(board.mesh, board.diffusivity)
        interface = interface_points(board.mesh, board.diffusivity)
        return with_points(
            lambda count: StrongForm(inside, interface, SOURCE, count, count // 4, jump_weight)
        )

    return losses


def first_order(balance_weight: float) -> Callable[[Board], Losses]:
    def losses(board: Board) -> Losses:
        inside = inside_points(board.mesh, board.diffusivity)
        return with_points(lambda count: FirstOrderSystem(inside, SOURCE, count, balance_weight))

    return losses


def deep_ritz(board: Board) -> Losses:
    inside = inside_points(board.mesh, board.diffusivity)
    return with_points(lambda count: DeepRitz(inside, SOURCE, count))


METHODS: Mapping[str, Method] = {
    "weak-form": Method(weak_form, Schedule(3e-3, 0.4, RIDGE), gram="diffusivity"),
    "weak-form-poisson": Method(weak_form_poisson, Schedule(3e-3, 0.4, RIDGE), gram="poisson"),
    "strong-form": Method(strong_form(0.0), Schedule(3e-2)),
    "strong-form-jumps": Method(strong_form(1.0), Schedule(3e-2)),
    "first-order": Method(first_order(1.0), Schedule(1e-2), num_outputs=3),
    "deep-ritz": Method(deep_ritz, Schedule(3e-2)),
    "strong-form-solved": Method(strong_form(1.0), Schedule(0.0, 1.0, RIDGE)),
    "first-order-solved": Method(first_order(1.0), Schedule(0.0, 1.0, 1e-8), num_outputs=3),
    "deep-ritz-solved": Method(deep_ritz, Schedule(0.0, 1.0, 1e-10)),
}
"""Baselines as they are published, by Adam, and again by our solve for the last layer alone.

They gain more from points for the solve than from steps of Adam before it.
"""

OURS = "weak-form"
PUBLISHED = ("strong-form", "strong-form-jumps", "first-order", "deep-ritz")
TUNED = ("strong-form-jumps", "first-order", "deep-ritz")
SOLVED = ("strong-form-solved", "first-order-solved", "deep-ritz-solved")


@dataclass(frozen=True)
class Budget:
    """What every method is given alike."""

    features: int
    cpu_seconds: float


def trained(
    name: str, board: Board, budget: Budget, seed: int, rate: float | None = None
) -> Trained:
    """A method's network from one seed of its first weights and of all that is drawn."""
    method = METHODS[name]
    network_key, key = jr.split(jr.key(seed))
    loss, last_loss = method.losses(board)
    network = cusp_network(network_key, method.num_outputs, features=budget.features)
    schedule = method.schedule
    if rate is not None:
        schedule = dataclasses.replace(schedule, rate=rate)
    return train(loss, last_loss, network, key, schedule, budget.cpu_seconds)


def galerkin(board: Board, budget: Budget, seed: int) -> Trained:
    """No training: the best that the last layer can do with the first weights of the others.

    The equation tested with the network's own features on the mesh; in the energy norm nothing
    made of the same features is nearer to the solution.
    """
    network = cusp_network(jr.split(jr.key(seed))[0], 1, features=budget.features)
    clock, start = perf_counter(), process_time()
    free = np.asarray(board.problem.free)
    features = np.asarray(nodal_features(network, jnp.asarray(board.mesh.nodes)))[free]
    matrix = features.T @ (board.stiffness @ features)
    matrix[np.diag_indices(budget.features)] += RIDGE * np.trace(matrix) / budget.features
    load = board.stiffness @ board.solution[free]
    weights = np.linalg.solve(matrix, features.T @ load) * np.sqrt(budget.features) / SCALES[0]
    network = dataclasses.replace(network, readout=jnp.asarray(weights[:, None]))
    return Trained(network, 0, 1, perf_counter() - clock, process_time() - start)
