"""What `auto` does: it starts cheap, looks whether that will do, and climbs where it will not.

Unknowns that can be integrated out are; a normal distribution about the most likely unknowns takes
some hundred solves however many unknowns and nodes there are, and the one nearest to the posterior
some thousand. Each is weighed by exact solves, and searches from elsewhere look for other peaks.
What does not pass is sampled, from where the last engine ended.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.engines.base import AbstractEngine
from riesz.engines.laplace.newton import place_at
from riesz.engines.nuts.engine import R_HAT
from riesz.engines.sample.peaks import NEGLIGIBLE, ends_from
from riesz.engines.table import engine_of
from riesz.errors import RieszError
from riesz.fem.choice import expected_seconds
from riesz.posterior.checks import DOUBTFUL, FAIR, ImportanceCheck
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import linear_parts
from riesz.problem.problem import Coordinates, InverseProblem

FEW_UNKNOWNS = 10
"""Coordinates that may be left where all others are integrated out."""

NUM_MODES = 50
"""Directions that the curvature is looked at, as `laplace` has it: what is compiled is shared."""

NUM_SEARCHES, MORE_SEARCHES = 5, 17
"""From the mean, and from pairs of opposite draws of the prior; more where all take no time."""

SOLVES_OF_A_SEARCH, SHORT_SEARCHES, LONGEST_SEARCHES = 300, 10.0, 240.0
"""Solves of a search for another peak, roughly, and seconds that all may take together."""


@dataclass(frozen=True, eq=False)
class Choice:
    """An engine, why it was taken, and what follows where its posterior will not do."""

    engine: AbstractEngine
    why: str
    then: tuple[AbstractEngine, ...] = ()


def choose_engine(problem: InverseProblem) -> Choice:
    """The engine to begin with, with its default settings, and those to go on to."""
    size = problem.num_coordinates
    unknowns = f"{size} unknown number{'' if size == 1 else 's'}"
    if problem.forward.dtype != jnp.dtype(jnp.float64):
        why = "exact solves need float64, and the problem is in float32"
        return Choice(engine_of("emulate"), why)
    left, sampler = num_others(problem), engine_of("sample")
    if left == 0:
        why = f"the state is linear in {'all of ' if size > 1 else ''}{unknowns}: nothing is left"
        return Choice(engine_of("conditional"), why, (sampler,))
    if left <= FEW_UNKNOWNS < size:
        why = f"all but {left} of {unknowns} can be integrated out"
        return Choice(engine_of("conditional"), why, (sampler,))
    why = f"with {unknowns}, a normal distribution about the most likely ones is found first"
    return Choice(engine_of("laplace"), why, (engine_of("variational"), sampler))


def num_others(problem: InverseProblem) -> int:
    """Unknowns that cannot be integrated out."""
    try:
        return len(linear_parts(problem).others)
    except RieszError:
        return problem.num_coordinates


def seconds_of(engine: AbstractEngine, problem: InverseProblem) -> float:
    """What an engine will take, roughly."""
    solver = problem.suited(num_sides=min(NUM_MODES, problem.num_coordinates))
    solve = expected_seconds(problem.forward, solver) * problem.num_solves
    return engine.compiling + engine.cost(solve, problem)


class Lack(NamedTuple):
    """Why a posterior will not do."""

    why: str
    is_elsewhere: bool = False  # what no normal distribution can mend
    higher: Coordinates | None = None  # the peak on which it should be


def lacking(posterior: Posterior, seed: int) -> Lack | None:
    """Nothing where a posterior will do, or where nobody can say."""
    if posterior.check is not None:
        return weighed_short(posterior.check) or elsewhere(posterior, seed)
    if "k_hat" in posterior.history and float(posterior.history["k_hat"]) > DOUBTFUL:
        k_hat = float(posterior.history["k_hat"])
        return Lack(f"k-hat of what is not integrated out is {k_hat:.2f}")
    if "r_hat" in posterior.history:
        worst = float(np.nanmax(np.asarray(posterior.history["r_hat"])))
        return None if worst <= R_HAT else Lack(f"r_hat is {worst:.3f}")
    return None


def weighed_short(check: ImportanceCheck) -> Lack | None:
    """What importance sampling finds missing."""
    if not check.k_hat <= check.good:
        return Lack(f"k-hat is {check.k_hat:.2f}")
    if check.effective_draws < min(FAIR, check.num_draws / 3):
        return Lack(f"its draws are worth {check.effective_draws:.0f} of the posterior")
    return None


def elsewhere(posterior: Posterior, seed: int) -> Lack | None:
    """Whether searches from draws of the prior end at another peak.

    One that is far higher is where the posterior is: q then tells of a lower one, and its weights
    cannot know.
    """
    problem = posterior.problem
    solver = problem.suited(num_sides=min(NUM_MODES, problem.num_coordinates))
    solve = expected_seconds(problem.forward, solver) * problem.num_solves
    if NUM_SEARCHES * SOLVES_OF_A_SEARCH * solve > LONGEST_SEARCHES:
        return None
    is_quick = MORE_SEARCHES * SOLVES_OF_A_SEARCH * solve <= SHORT_SEARCHES
    count = MORE_SEARCHES if is_quick else NUM_SEARCHES
    middle = posterior.coordinate_mean()
    ends = ends_from(problem, solver, middle, count, jr.key(seed))
    below = float(place_at(problem, middle, solver).cost) - float(ends[0].cost)
    if not below <= NEGLIGIBLE:
        why = f"a search from elsewhere ends at a peak that is higher by e^{below:.3g}"
        return Lack(why, higher=ends[0].coordinates)
    high = [end for end in ends if float(end.cost) < float(ends[0].cost) + NEGLIGIBLE]
    if len(high) == 1:
        return None
    return Lack(f"there are {len(high)} separate peaks", is_elsewhere=True)
