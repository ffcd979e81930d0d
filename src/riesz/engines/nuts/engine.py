"""The reference engine: exact solves, adjoint gradients and NumPyro's No-U-Turn sampler.

A gradient costs one sparse factorisation: the adjoint solve meets the matrix of the forward one
again, and the host remembers its factors. (Dense solvers factorise twice.)
"""

import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float
from rich.progress import Progress

from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.nuts.chains import (
    AbstractDensity,
    NutsSettings,
    Transition,
    history_of,
    sampled,
    warnings_of,
)
from riesz.engines.start import beginning
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.solve import require_float64
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.posterior.states import ExactStates
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


def nuts(
    problem: InverseProblem,
    *,
    seed: int = 0,
    num_warmup: int = 500,
    num_samples: int = 500,
    num_chains: int = 2,
    linear_solver: AbstractLinearSolver | None = None,
    start: Coordinates | Posterior | None = None,
    target_accept: float = 0.8,
    dense_mass: bool = True,
    max_tree_depth: int = 10,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """Sample the exact posterior, chain after chain, from the priors' medians or from `start`.

    From a posterior, chains begin at its mean, and its covariance is their inverse mass, which is
    not adapted: a short warm-up will do. Where the posterior is nearly normal, take that of
    `laplace` or `emulate`; with many unknowns where it is not, that of some hundred draws with
    `dense_mass=False`, as a dense mass is learnt from many more draws than there are unknowns.

    The history tells, for each chain and kept draw, `log_density`, `num_steps`, `diverging`,
    `accept_probability` and `step_size`; for each coordinate `r_hat` and `effective_draws`; and
    `num_gradients`, all that were computed, warm-up included.
    """
    require_float64(problem.forward)
    if min(num_samples, num_chains) < 1 or num_warmup < 0:
        raise RieszError(
            f"asked for {num_chains} chains of {num_samples} draws after {num_warmup}: there must "
            "be at least one of each, and no negative warm-up."
        )
    solver = SparseLU() if linear_solver is None else linear_solver
    origin, inverse_mass = beginning(problem, start, dense=dense_mass)
    settings = NutsSettings(
        num_warmup, target_accept, dense_mass, max_tree_depth, adapt_mass=inverse_mass is None
    )
    density = ExactDensity(problem, solver)
    with Progress(disable=not progress, transient=True) as bar:
        total = num_warmup + num_samples
        tasks = [bar.add_task(f"chain {i + 1}", total=total) for i in range(num_chains)]
        chains = [
            sampled(
                *(density, settings, key, origin, inverse_mass, total),
                lambda n, t=t: bar.advance(t, n),
                checkpoint=checkpoint,
                stage=f"chain {t}",
            )
            for t, key in zip(tasks, jr.split(jr.key(seed), num_chains), strict=True)
        ]
    every: Transition = jax.tree.map(lambda *parts: jnp.stack(parts), *chains)
    kept: Transition = jax.tree.map(lambda leaf: leaf[:, num_warmup:], every)
    # One gradient at the start of each chain, then one a leapfrog step.
    history = history_of(kept) | {"num_gradients": num_chains + jnp.sum(every.num_steps)}
    notes = warnings_of(history, problem.latents.coordinate_names())
    for note in notes:
        warnings.warn(f"nuts: {note}", stacklevel=2)
    return Posterior(
        problem=problem,
        distribution=EmpiricalDraws(kept.coordinates),
        states=ExactStates(solver),
        history=history,
        engine="nuts",
        seed=seed,
        notes=notes,
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
