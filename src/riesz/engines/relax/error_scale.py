r"""How large an error of the equation is, seen from the sensors.

In the relaxed model $L u = f + \epsilon w$ with $w \sim N(0, A)$ the data scatter about the exact
solution with covariance $S = D + \epsilon^2 K$, where $D$ holds the variances of the noise and
$K = H L^{-1} A L^{-\top} H^\top$. The scale $\epsilon$ has awkward units; people give
`epsilon_rel` instead, with mean$_i\,\epsilon^2 K_{ii}$ = (`epsilon_rel` $\sigma$)$^2$. A learned
$\epsilon$ maximises the evidence of the data (empirical Bayes).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.engines.base import require_plain_data
from riesz.errors import RieszError
from riesz.fem.assembly import jacobian, with_dirichlet
from riesz.fem.linear.linear_solve import SparseLU, host_lu
from riesz.fem.linear.sparse import SparseMatrix
from riesz.fem.solve import require_float64
from riesz.observe.likelihood import Gaussian
from riesz.penalty.dual_norm import Gram, dual_norm
from riesz.penalty.norm import PatchNorm, SchwarzPatches
from riesz.penalty.penalty import AbstractPenalty, ExactPenalty, WeakFormPenalty
from riesz.posterior.family import Draws
from riesz.posterior.posterior import AbstractStateMap
from riesz.problem.linearity import affine_coordinates
from riesz.problem.problem import Coordinates, InverseProblem

LEAST, MOST = 0.05, 100.0
"""Where a learned `epsilon_rel` is looked for: below it the equation is as good as exact."""

MAX_STEPS = 200
"""Of conjugate gradients, which need a few dozen: the norms are equivalent."""

GRID = 40
"""Values that are tried before the best of them is refined."""

CALIBRATED = 4096
"""Patches up to which a norm by patches is held to the effect of the exact one at the sensors."""


class GramFactor(eqx.Module):
    """A sparse F with F F^T = A: gives products with A, and draws of covariance A."""

    rows: Int[Array, " entry"]
    columns: Int[Array, " entry"]
    values: Float[Array, " entry"]

    def __matmul__(self, vector: Float[Array, " free"]) -> Float[Array, " free"]:
        products = self.values * vector[self.columns]
        return jax.ops.segment_sum(products, self.rows, len(vector))

    def transposed(self, vector: Float[Array, " free"]) -> Float[Array, " free"]:
        products = self.values * vector[self.rows]
        return jax.ops.segment_sum(products, self.columns, len(vector))


def gram_factor(gram: SparseMatrix) -> GramFactor:
    """By a sparse elimination without pivoting, which a positive matrix allows."""
    singular = RieszError(
        "the Gram matrix of the norm is not positive: without Dirichlet conditions add a "
        "reaction to it, gram=Gram(reaction=...)."
    )
    try:
        lu = spla.splu(
            sp.csc_array(gram.to_scipy().astype(float)),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:  # SuperLU's word for an exactly singular matrix
        raise singular from None
    pivots = lu.U.diagonal()
    if not (pivots > 1e-12 * np.abs(pivots).max()).all():
        raise singular
    lower = sp.coo_array(lu.L @ sp.diags_array(np.sqrt(pivots)))
    unpermuted = np.argsort(lu.perm_r)
    rows, columns = lower.coords
    return GramFactor(
        jnp.asarray(unpermuted[rows], jnp.int32),
        jnp.asarray(columns, jnp.int32),
        jnp.asarray(lower.data, gram.values.dtype),
    )


class Linearised(eqx.Module):
    """The equation about its solution for one value of the unknowns."""

    state: Float[Array, " node"]
    matrix: SparseMatrix  # L
    responses: Float[Array, "sensor free"]  # of each sensor to errors of the equation, L^-T H^T

    def discrepancy(self, factor: GramFactor) -> Float[Array, "sensor sensor"]:
        """The matrix K."""
        rows = jax.vmap(factor.transposed)(self.responses)
        return rows @ rows.T


@eqx.filter_jit
def linearised(problem: InverseProblem, coordinates: Coordinates) -> Linearised:
    """One factorisation, and one adjoint solve a sensor."""
    forward, state = problem.forward, problem.solved(coordinates, SparseLU())
    matrix = jacobian(forward, state, problem.z(coordinates))
    units = jnp.eye(len(problem.observed), dtype=forward.dtype)
    sensors = jax.vmap(lambda unit: problem.operator.transposed(unit)[forward.free])(units)
    responses = jax.vmap(lambda side: host_lu(matrix, side, transposed=True))(sensors)
    return Linearised(state, matrix, responses)


def noise_variances(problem: InverseProblem, coordinates: Coordinates) -> Float[Array, " sensor"]:
    """Of the measurements, one each."""
    return problem.noise_sd(problem.z(coordinates)) ** 2


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


def most_likely_epsilon(
    problem: InverseProblem, factor: GramFactor, unit: float, coordinates: Coordinates
) -> float:
    r"""The `epsilon_rel` that maximises the likelihood of the data, the unknowns integrated out.

    About given coordinates $\bar\xi$ the solution at the sensors is nearly
    $h + J(\xi - \bar\xi)$, and with the standard normal prior the data are
    $N(h - J\bar\xi,\; D + \epsilon^2 K + J J^\top)$: for linear equations exactly. Its
    log-determinant is what keeps epsilon from growing without end; the paper's objective drops it.
    """
    here = linearised(problem, coordinates)
    slopes = np.asarray(sensor_slopes(problem, coordinates))
    offset = np.asarray(problem.observed - problem.operator @ here.state)
    offset = offset + slopes @ np.asarray(coordinates)
    noise = np.diag(np.asarray(noise_variances(problem, coordinates))) + slopes @ slopes.T
    spread = unit**2 * np.asarray(here.discrepancy(factor))

    def cost(log_epsilon: float) -> float:
        return -log_evidence(offset, noise + np.exp(2 * log_epsilon) * spread)

    grid = np.linspace(np.log(LEAST), np.log(MOST), GRID)
    best = int(np.argmin([cost(one) for one in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)])
    return float(np.exp(scipy.optimize.fminbound(cost, *around)))


@eqx.filter_jit
def sensor_slopes(
    problem: InverseProblem, coordinates: Coordinates
) -> Float[Array, "sensor coordinate"]:
    """Derivatives of the exact solution at the sensors by the coordinates."""
    return jax.jacrev(lambda one: problem.operator @ problem.state(one))(coordinates)


def log_evidence(
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
            f"relax needs normal noise, to know how far the data correct the equation, but the "
            f"likelihood is {problem.likelihood.describe()}: use emulate or nuts."
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


class RelaxedStates(AbstractStateMap):
    r"""A state drawn for each draw of the unknowns, by exact solves, one after the other.

    For given unknowns the relaxed equation makes u Gaussian, and the data narrow it. Matheron's
    rule (pathwise conditioning, Wilson et al. 2021) turns a draw before the data into one after:
    $u = u_0 + \epsilon^2 L^{-1} A L^{-\top} H^\top S^{-1} (y - H u_0 - e)$ with noise $e$. Where
    the equation is not linear it is linearised about its solution.
    """

    epsilon: Float[Array, ""]
    factor: GramFactor

    def __call__(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Draws
    ) -> Float[Array, "draw node"]:
        keys = jr.split(key, len(coordinates))
        return jax.lax.map(lambda drawn: self.conditional(problem, *drawn), (keys, coordinates))

    def conditional(
        self, problem: InverseProblem, key: PRNGKeyArray, coordinates: Coordinates
    ) -> Float[Array, " node"]:
        """One state given the unknowns and the data."""
        here, forward = linearised(problem, coordinates), problem.forward
        variances = noise_variances(problem, coordinates)
        error_key, noise_key = jr.split(key)
        normals = jr.normal(error_key, (forward.num_free,), forward.dtype)
        error = self.epsilon * (self.factor @ normals)  # of the equation, before the data
        noise = jnp.sqrt(variances) * jr.normal(noise_key, variances.shape, forward.dtype)
        covariance = jnp.diag(variances) + self.epsilon**2 * here.discrepancy(self.factor)
        gap = problem.observed - problem.operator @ here.state - here.responses @ error - noise
        weights = jnp.linalg.solve(covariance, gap) @ here.responses
        error = error + self.epsilon**2 * (self.factor @ self.factor.transposed(weights))
        change = host_lu(here.matrix, error, transposed=False)
        values = here.state[forward.free] + change
        return with_dirichlet(forward, values, problem.z(coordinates))
