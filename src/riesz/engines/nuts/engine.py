"""The reference engine: exact solves, adjoint gradients and NumPyro's No-U-Turn sampler.

A gradient costs one sparse factorisation: the adjoint solve meets the matrix of the forward one
again, and the host remembers its factors. (Dense solvers factorise twice.)
The sampler is that of Hoffman & Gelman (2014).
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from riesz.engines.base import (
    GRADIENT,
    AbstractEngine,
    Count,
    CountOrZero,
    Flag,
    Share,
    Solver,
    Start,
    Work,
    as_solver,
    beginning,
    started,
)
from riesz.engines.nuts.chains import (
    AbstractDensity,
    NutsSettings,
    Transition,
    all_chains,
    history_of,
    warnings_of,
)
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.problem import Coordinates, InverseProblem


class ExactDensity(AbstractDensity):
    """The posterior by exact solves."""

    problem: InverseProblem
    solver: AbstractLinearSolver

    def __call__(self, coordinates: Coordinates) -> Float[Array, ""]:
        return log_density(self.problem, coordinates, self.solver)

    def explain(self, coordinates: Coordinates) -> None:
        self.problem.state(coordinates)  # says what is wrong where it is the solve
        raise RieszError(
            "the log-density is not finite where the chains start: look for noise of zero or "
            "observations far outside their likelihood, or pass start=..."
        )


class Nuts(AbstractEngine):
    """The exact posterior by sampling, chain after chain, from the priors' medians or `start`.

    From a posterior, chains begin at its mean, and its covariance is their inverse mass, which is
    not adapted: a short warm-up will do. Where the posterior is nearly normal, take that of
    `laplace` or `emulate`; with many unknowns where it is not, that of some hundred draws with
    `dense_mass=False`, as a dense mass is learnt from many more draws than there are unknowns.

    The history tells, for each chain and kept draw, `log_density`, `num_steps`, `diverging`,
    `accept_probability` and `step_size`; for each coordinate `r_hat` and `effective_draws`; and
    `num_gradients`, all that were computed, warm-up included.
    """

    name: ClassVar[str] = "nuts"
    is_exact: ClassVar[bool] = True
    compiling: ClassVar[float] = 40.0

    num_warmup: CountOrZero = 500
    num_samples: Count = 500
    num_chains: Count = 2
    target_accept: Share = 0.8
    dense_mass: Flag = True
    max_tree_depth: Count = 10
    start: Start = None
    linear_solver: Solver = SparseLU()

    def cost(self, solve: float, problem: InverseProblem) -> float:
        """Trees of about 15 steps."""
        return solve * GRADIENT * 15 * 2 * self.num_chains * (self.num_warmup + self.num_samples)

    def posterior(self, problem: InverseProblem, work: Work) -> Posterior:
        self.check(problem)
        solver = as_solver(self.linear_solver)
        start = started(problem, self.start, work)
        origin, inverse_mass = beginning(problem, start, dense=self.dense_mass)
        how = NutsSettings(
            self.num_warmup,
            self.target_accept,
            self.dense_mass,
            self.max_tree_depth,
            adapt_mass=inverse_mass is None,
        )
        every = all_chains(
            *(ExactDensity(problem, solver), how, jr.key(work.seed), origin, inverse_mass),
            *(self.num_chains, self.num_samples, work),
        )
        kept: Transition = jax.tree.map(lambda leaf: leaf[:, self.num_warmup :], every)
        # One gradient at the start of each chain, then one a leapfrog step.
        num_gradients = self.num_chains + jnp.sum(every.num_steps)
        history = history_of(kept) | {"num_gradients": num_gradients}
        return Posterior(
            problem=problem,
            distribution=EmpiricalDraws(kept.coordinates),
            states=ExactStates(solver),
            history=history,
            engine=self.name,
            seed=work.seed,
            notes=warnings_of(history, problem.latents.coordinate_names()),
        )


def log_density(
    problem: InverseProblem, coordinates: Coordinates, linear_solver: AbstractLinearSolver
) -> Float[Array, ""]:
    """The log-posterior up to a constant; NaN where the equation could not be solved.

    A trajectory that strays where there is no solution then ends as divergent, instead of
    stopping the run.
    """
    state = problem.solved(coordinates, linear_solver)
    return problem.latents.log_prior(coordinates) + problem.log_likelihood(coordinates, state)
