"""Where to measure next, from draws of a posterior: which quantity, and what is read where."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from riesz.errors import RieszError, nearest
from riesz.mesh.location import Location
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.prediction.draws import AtPlaces, NodalDraws, PosteriorDraws, RegionDraws
from riesz.prediction.new_points import NewPoints, new_points
from riesz.prediction.next_places import NextPlaces, best_places, joint_of
from riesz.priors.representatives import node_volumes, spread_nodes, volumes_about

STATE, BUDGET, EXCEED = "u", "budget:", "exceed:"

MOST_NODES, MOST_SIDES = 1500, 600
"""That stand for all, where the domain is integrated over; and where sides of a value are."""

FEWEST_DRAWS = 20


@dataclass(frozen=True, eq=False)
class Target:
    """The quantity that is to become better known, in parts whose weighted variances are added."""

    name: str
    words: str  # what is to become less
    parts: Float[np.ndarray, "draw part"]
    weights: Float[np.ndarray, " part"]
    above: Bool[np.ndarray, "draw part"] | None = None


@dataclass(frozen=True, eq=False)
class Candidates:
    """Places, and what measurements there would scatter about by which noise."""

    points: Float[np.ndarray, "place dim"]
    predictor: AtPlaces
    variance: Float[np.ndarray, " place"]


def target(draws: PosteriorDraws, name: str, *, level: float | None = None) -> Target:
    """The state u, an unknown, budget:TERM, or exceed:VALUE by what measurements scatter about.

    `level` is that value where draws have another scale than it is told in.
    """
    if name.startswith(EXCEED):
        return exceed_target(draws, name, threshold_in(name) if level is None else level)
    if name.startswith(BUDGET):
        return budget_target(draws, name)
    if name == STATE:
        nodes, weights = standing_nodes(draws.mesh, MOST_NODES)
        values = draws.state.at_nodes.values()[:, nodes]
        return Target(name, "variance of u, mean over the domain", values, weights)
    if name in draws.names:
        return unknown_target(draws, name)
    known = (STATE, *draws.names, *(BUDGET + term for term in budget_lines(draws)))
    raise RieszError(
        f"there is no quantity {name!r} to be better known: {nearest(name, known)}It may be u, the "
        f"state; one of the unknowns {', '.join(draws.names)}; budget:TERM; or exceed:VALUE, the "
        "side of a value on which what is measured lies."
    )


def unknown_target(draws: PosteriorDraws, name: str) -> Target:
    """A field, or the numbers of regions, integrated over the domain; positive ones by their
    logarithms, since their largest values would count alone."""
    own = draws.unknowns[name]
    if isinstance(own, NodalDraws):
        nodes, weights = standing_nodes(draws.mesh, MOST_NODES)
        values, of = own.at_nodes.values()[:, nodes], f"log {name}" if own.is_log else name
    elif isinstance(own, RegionDraws):
        volumes = cell_volumes(draws.mesh.nodes, draws.mesh.cells)
        weights = np.bincount(own.region, volumes, minlength=own.values.shape[1])
        weights = weights / weights.sum()
        is_log = bool((own.values > 0).all())
        values, of = (np.log(own.values), f"log {name}") if is_log else (own.values, name)
    else:
        count = own.values.shape[1]
        among = "" if count == 1 else ", mean over its components"
        return Target(name, f"variance of {name}{among}", own.values, np.full(count, 1 / count))
    return Target(name, f"variance of {of}, mean over the domain", values, weights)


def budget_lines(draws: PosteriorDraws) -> dict[str, Float[np.ndarray, " draw"]]:
    return {**draws.gains, **draws.outflows}


def budget_target(draws: PosteriorDraws, name: str) -> Target:
    term, lines = name.removeprefix(BUDGET), budget_lines(draws)
    if term not in lines:
        advice = f"it has {', '.join(map(repr, lines))}" if lines else "there is none, as in time"
        raise RieszError(f"the budget has no line {term!r}: {nearest(term, lines)}{advice}.")
    return Target(name, f"variance of {term} in the budget", lines[term][:, None], np.ones(1))


def exceed_target(draws: PosteriorDraws, name: str, level: float) -> Target:
    """At average covariates, as a map without any has it."""
    nodes, weights = standing_nodes(draws.mesh, MOST_SIDES)
    states, points = draws.state.at_nodes.values()[:, nodes], draws.mesh.nodes[nodes]
    there = new_points(draws, points, None, given=states)
    predictor = there.predictor(slice(None))
    words = f"share of the domain expected on the wrong side of {name.removeprefix(EXCEED)}"
    above: Bool[np.ndarray, "draw part"] = draws.shifts.location(predictor) > level
    return Target(name, words, predictor, weights, above)


def threshold_in(name: str) -> float:
    try:
        value = float(name.removeprefix(EXCEED))
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise RieszError(f"{name!r} names no value: write a finite number, such as exceed:1500.")
    return value


def standing_nodes(
    mesh: Mesh, most: int
) -> tuple[Int[np.ndarray, " part"], Float[np.ndarray, " part"]]:
    """Nodes that stand for all, and the share of the domain that each stands for."""
    if mesh.num_nodes <= most:
        volumes = node_volumes(mesh)
        return np.arange(mesh.num_nodes), volumes / volumes.sum()
    nodes = spread_nodes(mesh, most, np.ones(mesh.dim))
    volumes = volumes_about(mesh, nodes)
    return nodes, volumes / volumes.sum()


def candidates_at(
    draws: PosteriorDraws,
    points: Float[np.ndarray, "place dim"],
    where: Location | None,
    *,
    design: Float[np.ndarray, "place effect"] | None = None,
    given: AtPlaces | None = None,
    noise_sd: float | None = None,
) -> Candidates:
    """Measurements of the kind that was fitted, or with another noise; `given` states may be of
    another date. What neighbours leave open at a place is noise to all that is asked about."""
    shifts, every = draws.shifts, slice(None)
    if noise_sd is not None and not (np.isfinite(noise_sd) and noise_sd > 0):
        raise RieszError(f"the noise of the measurement is {noise_sd}: give a positive sd.")
    if noise_sd is None and shifts.scatter is None:
        raise RieszError(
            "how new measurements scatter elsewhere is not known for this kind of noise: give the "
            "sd of the next one, noise."
        )

    def predictor_at(probability: float) -> AtPlaces:
        open_yet = np.full((draws.num_draws, 1), probability)
        return NewPoints(draws, points, where, design, open_yet, open_yet, given).predictor(every)

    predictor = predictor_at(0.5)
    if noise_sd is not None:
        variance = np.full(len(points), noise_sd**2)
    else:
        assert shifts.scatter is not None
        sd = shifts.scatter.equivalent_sd(predictor, shifts.parameters)
        variance = np.exp(2 * np.mean(np.log(np.maximum(sd, 1e-300)), axis=0))
    if shifts.local is not None:
        variance = variance + np.mean((predictor_at(float(ndtr(1.0))) - predictor) ** 2, axis=0)
    return Candidates(points, predictor, variance)


def rank_places(
    of: Target, candidates: Candidates, count: int = 1, *, exact: bool = False
) -> NextPlaces:
    """The best of the candidates, and what each would tell of the quantity."""
    num_draws = len(candidates.predictor)
    if not exact and num_draws < FEWEST_DRAWS:
        raise RieszError(
            f"there are {num_draws} draws, from which nothing can be told of correlations: take at "
            f"least {FEWEST_DRAWS}, better some hundreds."
        )
    if not (np.isfinite(of.parts).all() and np.isfinite(candidates.predictor).all()):
        raise RieszError(
            f"{of.name}, or what would be measured, is NaN or infinite in some draws: look for "
            "priors that allow impossible coefficients."
        )
    predictor, variance = candidates.predictor, candidates.variance
    joint = joint_of(of.parts, of.weights, predictor, variance, above=of.above, exact=exact)
    return best_places(joint, candidates.points, count, of.name, of.words)
