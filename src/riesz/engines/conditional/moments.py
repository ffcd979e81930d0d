"""Means and variances of a linear state given the data, without the scatter of draws."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from riesz.engines.conditional.engine import Conditional
from riesz.engines.conditional.linear import affine_map, linear_system
from riesz.errors import RieszError
from riesz.fem.interpolate import PointOperator, point_operator
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.problem import InverseProblem

MAX_OTHERS = 64
"""Values of the unknowns that are not integrated out over which moments are averaged."""


class Mixture(NamedTuple):
    """The state at points is a mixture of normal distributions, one for each value of the others.

    The noise is that of a new measurement; where sensors have one each, its root mean square.
    """

    means: Float[np.ndarray, "part point"]
    sds: Float[np.ndarray, "part point"]
    noise: Float[np.ndarray, " part"]
    shares: Float[np.ndarray, " part"]  # they add up to one


class Moments(NamedTuple):
    """Of the state at points, and of a new measurement there."""

    mean: Float[np.ndarray, " point"]
    sd: Float[np.ndarray, " point"]
    measured_sd: Float[np.ndarray, " point"]


def conditional_moments(
    posterior: Posterior,
    at: ArrayLike,
    *,
    max_others: int = MAX_OTHERS,
    tolerance: float | None = None,
    linear_solver: AbstractLinearSolver | None = None,
) -> Moments:
    """Of the state at points, one a row, under a posterior by `conditional`.

    Exact given the unknowns that were not integrated out; averaged over at most `max_others` of
    the posterior's values of these.
    """
    found = conditional_mixture(
        posterior, at, max_others=max_others, tolerance=tolerance, linear_solver=linear_solver
    )
    mean = found.shares @ found.means
    variance = found.shares @ (found.sds**2 + (found.means - mean) ** 2)
    measured = variance + found.shares @ found.noise**2
    return Moments(mean, np.sqrt(variance), np.sqrt(measured))


def conditional_mixture(
    posterior: Posterior,
    at: ArrayLike,
    *,
    max_others: int = MAX_OTHERS,
    tolerance: float | None = None,
    linear_solver: AbstractLinearSolver | None = None,
) -> Mixture:
    """The distribution of the state at points itself."""
    drawn = posterior.distribution
    if posterior.engine != Conditional.name or not isinstance(drawn, EmpiricalDraws):
        raise RieszError(
            f"the posterior is by {posterior.engine or 'no engine'}: these moments are of "
            "conditional; use predict."
        )
    parts = linear_parts(posterior.problem)
    every = np.asarray(drawn.all())
    # Many draws share the others: where all do, one part is all there is.
    others, counts = np.unique(every[:, np.asarray(parts.others)], axis=0, return_counts=True)
    if len(others) > max_others:
        kept = np.random.default_rng(0).choice(len(others), max_others, replace=False)
        others, counts = others[kept], counts[kept]
    found = mixture_at(
        posterior.problem, parts, others, at, tolerance=tolerance, linear_solver=linear_solver
    )
    return found._replace(shares=counts / counts.sum())


def mixture_at(
    problem: InverseProblem,
    parts: Parts,
    others: Float[np.ndarray, "part other"],
    at: ArrayLike,
    *,
    tolerance: float | None = None,
    linear_solver: AbstractLinearSolver | None = None,
) -> Mixture:
    """The same for given values of the unknowns that are not integrated out, each alike."""
    solver = SparseLU() if linear_solver is None else linear_solver
    operator = point_operator(
        problem.forward.space, at, dtype=problem.forward.dtype, tolerance=tolerance
    )
    found = mixture_of(problem, parts, jnp.asarray(others), operator, solver)
    means, sds, noise = map(np.asarray, found)
    return Mixture(means, sds, noise, np.full(len(others), 1 / len(others)))


@eqx.filter_jit
def mixture_of(
    problem: InverseProblem,
    parts: Parts,
    others: Float[Array, "part other"],
    operator: PointOperator,
    solver: AbstractLinearSolver,
) -> tuple[Float[Array, "part point"], Float[Array, "part point"], Float[Array, " part"]]:
    """Means, sds and noise for each value of the other unknowns."""

    def one(own):
        system = linear_system(problem, parts, own, solver)
        offset, responses = affine_map(problem, parts, own, operator, solver)
        mean = offset + responses @ system.mean()
        sd = jnp.sqrt(jnp.maximum(system.variances(responses), 0.0))
        return mean, sd, jnp.sqrt(jnp.mean(system.noise_sd**2))

    return jax.lax.map(one, others)
