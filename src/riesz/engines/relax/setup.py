"""What `relax` needs to know before it trains: the norm, and what one noise sd means in it."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from riesz.engines.relax.error_scale import (
    GramFactor,
    epsilon_unit,
    linearised,
    noise_variances,
    patch_variances,
)
from riesz.engines.relax.polish import count_patches, never_negative
from riesz.errors import RieszError
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.solve import require_float64
from riesz.observe.likelihood import Gaussian
from riesz.penalty.dual_norm import dual_norm
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import AbstractPenalty, ExactPenalty, WeakFormPenalty
from riesz.penalty.schwarz_patches import SchwarzPatches
from riesz.problem.linearity import affine_coordinates
from riesz.problem.problem import InverseProblem

CALIBRATED = 4096
"""Patches up to which a norm by patches is held to the effect of the exact one at the sensors."""


def check_problem(problem: InverseProblem) -> None:
    require_float64(problem.forward)
    if not isinstance(problem.likelihood, Gaussian):
        raise RieszError(
            f"relax needs normal noise, to know how far the data correct the equation, but the "
            f"likelihood is {problem.likelihood.describe()}: use emulate or nuts."
        )


def gram_matrix(penalty: AbstractPenalty) -> SparseMatrix:
    """The matrix A of the norm that a penalty measures or estimates."""
    if isinstance(penalty, ExactPenalty):
        return penalty.norm.gram
    gram = Gram()
    if isinstance(penalty, WeakFormPenalty) and isinstance(penalty.norm.fine, SchwarzPatches):
        patches = penalty.norm.fine
        gram = Gram(np.asarray(patches.diffusivity), float(patches.reaction))
    return dual_norm(penalty.problem, gram).gram


def median_units(
    problem: InverseProblem, penalty: AbstractPenalty, gram: SparseMatrix, factor: GramFactor
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The epsilon that counts as one noise sd at the priors' medians: exactly, and by patches."""
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    here, variances = linearised(problem, origin), noise_variances(problem, origin)
    exact = epsilon_unit(jnp.diagonal(here.discrepancy(factor)), variances)
    if not (isinstance(penalty, WeakFormPenalty) and never_negative(penalty)):
        return exact, exact
    if count_patches(penalty) > CALIBRATED:
        return exact, exact
    errors = patch_variances(penalty.norm, gram, here, problem.forward.free)
    return exact, epsilon_unit(errors, variances)


def told(problem: InverseProblem, epsilon_rel: float) -> tuple[str, ...]:
    """What a reader must know before trusting the posterior."""
    affine = affine_coordinates(problem)
    if epsilon_rel <= 1 or len(affine) == problem.num_coordinates:
        return ()
    note = (
        f"epsilon_rel is {epsilon_rel:.3g}, above one, and the equation's matrix depends on the "
        "unknowns: the objective leaves out how likely an error of that size is for each value of "
        "them, log|S(z)| / 2, and favours values that let errors grow."
    )
    return (note,)
