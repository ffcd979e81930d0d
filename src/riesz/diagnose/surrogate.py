r"""The dual residual as an error estimate of a surrogate, held against the true error.

With the Gram matrix $A$ of the energy, the symmetric part of the equation at the posterior's mean,
the estimate is $\|r(\mu)\|_{A^{-1}}$ and the error $\|\mu - u_h\|_A$. Were the equation $A$ itself
they would be equal; their ratio is the efficiency index of a-posteriori error estimation
(Verfuerth 2013).
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError
from riesz.fem.assembly import jacobian, residual
from riesz.fem.linear.linear_solve import AbstractLinearSolver
from riesz.fem.linear.sparse import SparseMatrix
from riesz.penalty.dual_norm import DualNorm
from riesz.posterior.checks import SurrogateError
from riesz.posterior.family import Draws
from riesz.posterior.posterior import Posterior, SurrogateStates
from riesz.problem.problem import Coordinates, InverseProblem, in_precision

NUM_DRAWS = 32


def surrogate_error(
    posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> SurrogateError:
    """Compare the surrogate's states at draws of q with exact ones: a solve each."""
    if not isinstance(posterior.states, SurrogateStates):
        raise RieszError(
            f"a posterior by {posterior.engine} has no surrogate whose error could be told."
        )
    with jax.enable_x64(True):
        problem, family, states = in_precision(
            (posterior.problem, posterior.distribution, posterior.states), jnp.float64
        )
        draws = family.sample(jr.key(seed), num_draws)
        mean = jnp.mean(draws, axis=0)
        norm = energy_norm(problem, mean, problem.suited(num_sides=num_draws))
        found = energies(problem, norm, mean, states, draws)
        squares, gaps = np.asarray(found[0]), np.asarray(found[1])
    unsolved = np.isnan(squares).any(axis=0)
    if unsolved.any():
        raise RieszError(
            f"the equation could not be solved at {unsolved.sum()} of {num_draws} draws. Look for "
            "priors that allow impossible coefficients."
        )
    if not (squares > 0).all():
        raise RieszError(
            "the equation has no energy norm at the posterior's mean: its symmetric part is not "
            "positive, or the surrogate is exact, so that no error can be told."
        )
    estimate, error, size = np.sqrt(squares)
    return SurrogateError(estimate / size, error / size, gaps)


def energy_norm(
    problem: InverseProblem, coordinates: Coordinates, solver: AbstractLinearSolver
) -> DualNorm:
    """The norm by the symmetric part of the equation's matrix."""
    matrix = jacobian(problem.forward, problem.state(coordinates), problem.z(coordinates))
    transposed = matrix.to_scipy().T.tocsr()  # its entries stand where those of the matrix do
    transposed.sort_indices()
    values = (matrix.values + jnp.asarray(transposed.data)) / 2
    return DualNorm(SparseMatrix(matrix.pattern, values), solver)


@eqx.filter_jit
def energies(
    problem: InverseProblem,
    norm: DualNorm,
    mean: Coordinates,
    states: SurrogateStates,
    draws: Draws,
) -> tuple[Float[Array, "3 draw"], Float[Array, " draw"]]:
    """Squares of the dual residual, the error and the state; the largest error at a sensor."""
    forward = problem.forward
    surrogates = states(problem, jr.key(0), draws)
    middle = problem.z(mean)
    _, product = jax.linearize(
        lambda state: residual(forward, state, middle), problem.solved(mean, norm.solver)
    )

    def one(drawn):
        coordinates, emulated = drawn
        z, exact = problem.z(coordinates), problem.solved(coordinates, norm.solver)
        gap = emulated - exact
        squares = [norm.squared(residual(forward, emulated, z)[forward.free])]
        # Of the whole state: without its boundary values it would drop to zero within a cell.
        squares += [values @ product(values) for values in (gap, exact)]
        return jnp.stack(squares), jnp.max(jnp.abs(problem.whitened(problem.operator @ gap, z)))

    squares, gaps = jax.lax.map(one, (draws, surrogates))
    return squares.T, gaps


def with_surrogate_error(posterior: Posterior, *, seed: int = 0) -> Posterior:
    """The same posterior with these figures."""
    return dataclasses.replace(posterior, surrogate_error=surrogate_error(posterior, seed=seed))
