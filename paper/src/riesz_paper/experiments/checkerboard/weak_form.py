"""Our loss on the checkerboard: the weak form's residual, measured on mini-patches."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.density.surrogate.least_squares import patch_squares
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import WeakFormPenalty, weak_form_penalty
from riesz_paper.baselines.strong_form.forward import AbstractForwardLoss, Field
from riesz_paper.experiments.checkerboard.board import Board

NUM_PATCHES = 16

Weights = Float[Array, " weight"]


class WeakFormLoss(AbstractForwardLoss):
    """The penalty of the field's nodal interpolant, from drawn patches."""

    penalty: WeakFormPenalty

    def __call__(self, key: PRNGKeyArray, field: Field) -> Float[Array, ""]:
        return self.penalty(key, lambda x, z: field(x)[0])


def weak_form_loss(board: Board, gram: Gram) -> WeakFormLoss:
    # The whole mesh is evaluated in each step: on coarse levels quadrature would lead to the exact
    # solution, which is far from that of the mesh here.
    penalty = weak_form_penalty(
        board.problem, board.meshes, num_patches=NUM_PATCHES, gram=gram, whole_mesh=True
    )
    return WeakFormLoss(penalty)


@eqx.filter_jit
def patch_equations(
    loss: WeakFormLoss, field_of: Callable[[Weights], Field], weights: Weights
) -> tuple[Float[Array, "weight weight"], Weights]:
    """Second and first derivatives of the sum over all patches, nothing drawn.

    For weights that fields are linear in; the squares need one solve on each patch.
    """
    penalty = loss.penalty
    sample = penalty.norm.all()

    def rows(weights):
        field = field_of(weights)
        return penalty.rows(sample, lambda x, z: field(x)[0])

    residual, change = jax.linearize(rows, weights)
    slopes = jax.vmap(change, out_axes=-1)(jnp.eye(weights.size, dtype=weights.dtype))
    squares = 2 * patch_squares(penalty, sample, residual, slopes)[0]
    return squares[:, :-1], squares[:, -1]
