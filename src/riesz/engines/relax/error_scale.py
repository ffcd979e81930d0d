r"""How large an error of the equation is, seen from the sensors.

The scale $\epsilon$ has awkward units; people give `epsilon_rel` instead, with
mean$_i\,\epsilon^2 K_{ii}$ = (`epsilon_rel` $\sigma$)$^2$. Training with a learned $\epsilon$ goes
by the value that maximises the evidence of the data.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
import scipy.linalg
from jaxtyping import Array, Float, Int

from riesz.engines.base import require_plain_data
from riesz.engines.relax.discrepancy import (
    AbstractErrors,
    GramFactor,
    Linearised,
    linearise,
    noise_variances,
    relax_solver,
)
from riesz.engines.relax.schedule import Learned
from riesz.engines.relax.states import linearise_equation
from riesz.errors import RieszError
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.root import require_float64
from riesz.observe.likelihood import Gaussian
from riesz.penalty.gram import Gram, dual_norm
from riesz.penalty.norm import PatchNorm, SchwarzPatches
from riesz.penalty.penalty import AbstractPenalty, ExactPenalty, WeakFormPenalty
from riesz.problem.problem import Coordinates, InverseProblem

MAX_STEPS = 200
"""Of conjugate gradients, which need a few dozen: the norms are equivalent."""

CALIBRATED = 4096
"""Patches up to which a norm by patches is held to the effect of the exact one at the sensors."""


def epsilon_unit(
    error_variances: Float[Array, " sensor"], variances: Float[Array, " sensor"]
) -> Float[Array, ""]:
    """The epsilon that moves the state at the sensors as much as the noise does, on average.

    `error_variances` is the diagonal of K.
    """
    return jnp.sqrt(jnp.mean(variances) / jnp.mean(error_variances))


@eqx.filter_jit
def patch_variances(
    norm: PatchNorm, gram: SparseMatrix, here: Linearised, free: Int[Array, " free"]
) -> Float[Array, " sensor"]:
    r"""The diagonal of K for a norm by mini-patches, $r^\top \Gamma r$ with $\Gamma^{-1}$ for A.

    The two norms are equivalent but not equal. Held to the same effect at the sensors, they give
    nearly the same posterior for the same `epsilon_rel`.
    """
    nowhere = jnp.zeros(len(here.state), here.state.dtype)

    def product(values: Float[Array, " free"]) -> Float[Array, " free"]:
        return jax.grad(norm.squared)(nowhere.at[free].set(values))[free] / 2

    def variance(response: Float[Array, " free"]) -> Float[Array, ""]:
        error, _ = jax.scipy.sparse.linalg.cg(
            product, response, tol=1e-4, maxiter=MAX_STEPS, M=gram.__matmul__
        )
        return response @ error

    return jax.vmap(variance)(here.responses)


def maximum_likelihood_epsilon(
    problem: InverseProblem, factor: AbstractErrors, unit: float, coordinates: Coordinates
) -> float:
    r"""The `epsilon_rel` that maximises the likelihood of the data, the unknowns integrated out.

    About given coordinates $\bar\xi$ the solution at the sensors is nearly
    $h + J(\xi - \bar\xi)$, and with the standard normal prior the data are
    $N(h - J\bar\xi,\; D + \epsilon^2 K + J J^\top)$: for linear equations exactly. Its
    log-determinant is what keeps epsilon from growing without end; the paper's objective drops it.
    """
    here = linearise_equation(problem, coordinates, relax_solver(problem))
    grid = np.log(Learned().scales().values)
    slopes = np.asarray(sensor_jacobian(problem, coordinates))
    problem.check_solved(coordinates[None], slopes[None])
    offset = np.asarray(problem.observed - problem.operator @ here.state)
    offset = offset + slopes @ np.asarray(coordinates)
    noise = np.diag(np.asarray(noise_variances(problem, coordinates))) + slopes @ slopes.T
    spread = unit**2 * np.asarray(here.discrepancy(factor))

    def cost(log_epsilon: float) -> float:
        return -gaussian_log_evidence(offset, noise + np.exp(2 * log_epsilon) * spread)

    best = int(np.argmin([cost(one) for one in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return float(np.exp(scipy.optimize.fminbound(cost, *around)))


@eqx.filter_jit
def sensor_jacobian(
    problem: InverseProblem, coordinates: Coordinates
) -> Float[Array, "sensor coordinate"]:
    """Derivatives of the exact solution at the sensors by the coordinates."""
    return jax.jacrev(lambda one: problem.operator @ problem.state(one))(coordinates)


def gaussian_log_evidence(
    offset: Float[np.ndarray, " sensor"], covariance: Float[np.ndarray, "sensor sensor"]
) -> float:
    """The normal log-density, log-determinant included, up to a constant."""
    factor = np.linalg.cholesky(covariance)
    white = scipy.linalg.solve_triangular(factor, offset, lower=True)
    return float(-0.5 * white @ white - np.log(np.diag(factor)).sum())


def check_problem(problem: InverseProblem) -> None:
    require_float64(problem.forward)
    require_plain_data(problem, "relax")
    if not all(isinstance(one, Gaussian) for one, _ in problem.likelihood.parts(0)):
        raise RieszError(
            f"relax needs independent normal noise, to know how far the data correct the equation, "
            f"but the likelihood is {problem.likelihood.describe()}: use emulate or nuts."
        )


def never_negative(penalty: AbstractPenalty) -> bool:
    """Whether the penalty is a norm; where it is not, exact minimisation would find out."""
    return isinstance(penalty, ExactPenalty) or (
        isinstance(penalty, WeakFormPenalty) and isinstance(penalty.norm.fine, SchwarzPatches)
    )


def count_patches(penalty: WeakFormPenalty) -> int:
    """All of them, on all levels."""
    coarse = penalty.norm.coarse
    return penalty.norm.fine.num_patches + (0 if coarse is None else coarse.num_patches)


def gram_matrix(penalty: AbstractPenalty) -> SparseMatrix:
    """The matrix A of the norm that a penalty measures or estimates."""
    if isinstance(penalty, ExactPenalty):
        return penalty.norm.gram
    gram = Gram()
    if isinstance(penalty, WeakFormPenalty) and isinstance(penalty.norm.fine, SchwarzPatches):
        diffusivity = np.asarray(penalty.norm.fine.diffusivity)
        if not diffusivity.ndim:
            diffusivity = float(diffusivity)
        gram = Gram(diffusivity, float(penalty.norm.fine.reaction))
    return dual_norm(penalty.problem, gram).gram


def median_unit(problem: InverseProblem, factor: AbstractErrors) -> Float[Array, ""]:
    """The epsilon that counts as one noise sd at the priors' medians."""
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    here = linearise_equation(problem, origin, relax_solver(problem))
    errors = jnp.diagonal(here.discrepancy(factor))
    return epsilon_unit(errors, noise_variances(problem, origin))


def median_units(
    problem: InverseProblem, penalty: AbstractPenalty, gram: SparseMatrix, factor: GramFactor
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The same exactly, and by patches, for a steady equation."""
    origin = jnp.zeros(problem.num_coordinates, problem.forward.dtype)
    here = linearise(problem, origin, relax_solver(problem))
    variances = noise_variances(problem, origin)
    exact = epsilon_unit(jnp.diagonal(here.discrepancy(factor)), variances)
    if not (isinstance(penalty, WeakFormPenalty) and never_negative(penalty)):
        return exact, exact
    if count_patches(penalty) > CALIBRATED:
        return exact, exact
    errors = patch_variances(penalty.norm, gram, here, problem.forward.free)
    return exact, epsilon_unit(errors, variances)
