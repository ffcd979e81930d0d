r"""What one further measurement would tell, from joint draws of a quantity and of what it reads.

Where all is normal, a measurement of $s_c$ with noise of variance $\tau_c^2$ takes
$\mathrm{Cov}(q, s_c)^2 / (\mathrm{Var}\, s_c + \tau_c^2)$ from the variance of a quantity $q$,
whatever it reads; elsewhere that is what linear regression on it explains. No refit is made, and
several places are chosen one after the other, each given those before it.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri, owens_t

from riesz.errors import RieszError

AtParts = Float[np.ndarray, "draw part"]
AtPlaces = Float[np.ndarray, "draw place"]
OfPlaces = Float[np.ndarray, " place"]

BLOCK = 1_000
"""Places that are looked at together."""

LEFT_OUT = 1e-6
"""Of the variance of a quantity of many parts: it is told by fewer combinations of them."""

NUM_GROUPS = 20
"""Of draws, each left out once to see what chance does."""

MOST_ERRORS = 200
"""Places whose Monte-Carlo error is looked at, the best ones."""

LAGS = 8
"""Draws of a chain may be alike so far apart."""


@dataclass(frozen=True, eq=False)
class Exceedance:
    """On which side of a value each part lies, and how much was learned of it already."""

    above: Bool[np.ndarray, "draw part"]
    weights: Float[np.ndarray, " part"]
    variance: Float[np.ndarray, " part"]
    taken: Float[np.ndarray, " part"]  # of the variance

    def scores(self) -> Float[np.ndarray, " part"]:
        """Normal scores of the probability to be above; infinite where all draws agree."""
        return np.abs(ndtri(self.above.mean(axis=0)))

    def wrong(self) -> float:
        """The weight of parts that are expected to be put on the wrong side, before any more."""
        return float(self.weights @ wrong_after(self.scores(), np.zeros(len(self.weights))))


@dataclass(frozen=True, eq=False)
class JointDraws:
    """Draws of a quantity and of what measurements at places would scatter about, such that
    products of columns are covariances.

    A quantity of several parts has their variances added. `worth` is how many independent draws
    tell as much: infinite where columns are exact factors. With `sides`, what counts is not the
    variance but whether parts lie above a value.
    """

    parts: AtParts
    predictor: AtPlaces
    noise: OfPlaces  # variances
    worth: float
    sides: Exceedance | None = None

    def without(
        self, rows: Bool[np.ndarray, " draw"], places: Int[np.ndarray, " some"]
    ) -> "JointDraws":
        """Of other draws than these, at some places."""
        kept, sides = ~rows, self.sides
        share = kept.mean()
        parts, predictor = (
            (own - own.mean(axis=0)) / np.sqrt(share)
            for own in (self.parts[kept], self.predictor[np.ix_(kept, places)])
        )
        if sides is not None:
            variance = np.einsum("dp,dp->p", parts, parts)
            sides = dataclasses.replace(sides, above=sides.above[kept], variance=variance)
        return JointDraws(parts, predictor, self.noise[places], share * self.worth, sides)


def joint_of(
    parts: AtParts,
    weights: Float[np.ndarray, " part"],
    predictor: AtPlaces,
    noise: OfPlaces,
    *,
    above: Bool[np.ndarray, "draw part"] | None = None,
    exact: bool = False,
) -> JointDraws:
    """From draws; `exact` are those that have the very moments of a normal distribution."""
    worth = np.inf if exact else independent_draws(predictor)
    scale = np.sqrt(len(predictor) if exact else len(predictor) - 1)
    parts, predictor = ((own - own.mean(axis=0)) / scale for own in (parts, predictor))
    if above is None:
        return JointDraws(compress(parts * np.sqrt(weights)), predictor, noise, worth)
    variance = np.einsum("dp,dp->p", parts, parts)
    open_yet = above.any(axis=0) & ~above.all(axis=0) & (variance > 0)
    sides = Exceedance(
        above[:, open_yet], weights[open_yet], variance[open_yet], 0 * weights[open_yet]
    )
    return JointDraws(parts[:, open_yet], predictor, noise, worth, sides)


def independent_draws(predictor: AtPlaces) -> float:
    """How many independent draws estimate covariances as well.

    Draws that come in pairs of opposite sign, as those of families do, tell half as much of them;
    those of chains may be alike, too. Products are as correlated as the square of what they are of.
    """
    count = len(predictor)
    some = predictor[:, :: max(predictor.shape[1] // 50, 1)]
    some = some - some.mean(axis=0)
    some = some / np.maximum(np.sqrt(np.mean(some**2, axis=0)), 1e-300)
    most = np.sqrt(9 / count)  # what chance does is no likeness

    def alike(lag: int) -> float:
        result = float(np.mean(some[lag:] * some[: count - lag]))
        return result**2 if abs(result) > most else 0.0

    half = (count + 1) // 2
    chained = sum(alike(lag) for lag in range(1, min(LAGS + 1, half)))
    return count / (1 + 2 * chained + alike(half))


def compress(scaled: AtParts) -> Float[np.ndarray, "draw combination"]:
    """Fewer columns with the same inner products between draws, by Cholesky with pivots."""
    left = np.einsum("dp,dp->d", scaled, scaled)
    goal, result = LEFT_OUT * left.sum(), np.zeros((len(scaled), 0))
    if scaled.shape[1] < min(len(scaled), 50):
        return scaled
    while left.sum() > goal and result.shape[1] < min(scaled.shape):
        pivot = int(np.argmax(left))
        column = scaled @ scaled[pivot] - result @ result[pivot]
        result = np.column_stack([result, column / np.sqrt(left[pivot])])
        left = np.maximum(left - result[:, -1] ** 2, 0.0)
        left[pivot] = 0.0
    return result


def square_of(
    covariance: Float[np.ndarray, "part place"],
    variance: Float[np.ndarray, "part 1"],
    predictor: OfPlaces,
    worth: float,
) -> Float[np.ndarray, "part place"]:
    """Squares of covariances without what chance adds to them, as the adjusted R² of a regression:
    of nothing, nothing on average; of what is the same, all."""
    return covariance**2 * (1 + 1 / worth) - variance * predictor / worth


def amount(joint: JointDraws) -> float:
    """What there is to be learned: the variance, or what is on the wrong side."""
    return float(np.sum(joint.parts**2)) if joint.sides is None else joint.sides.wrong()


def drops(joint: JointDraws) -> OfPlaces:
    """How much less a measurement at each place alone would leave, on average."""
    starts = range(0, joint.predictor.shape[1], BLOCK)
    return np.concatenate([drops_at(joint, slice(start, start + BLOCK)) for start in starts])


def drops_at(joint: JointDraws, part: slice) -> OfPlaces:
    predictor, noise, sides = joint.predictor[:, part], joint.noise[part], joint.sides
    own = np.einsum("dc,dc->c", predictor, predictor)
    covariance = joint.parts.T @ predictor
    variance = np.einsum("dp,dp->p", joint.parts, joint.parts)[:, None]
    shares = square_of(covariance, variance, own, joint.worth) / np.maximum(own + noise, 1e-300)
    if sides is None:
        return shares.sum(axis=0)
    scores = sides.scores()[:, None]
    before, more = (sides.taken / sides.variance)[:, None], shares / sides.variance[:, None]
    # What chance makes of nothing has both signs, and so has what follows from it.
    gained = wrong_after(scores, before) - wrong_after(scores, before + np.abs(more))
    return sides.weights @ (np.sign(more) * gained)


def wrong_after(
    scores: Float[np.ndarray, "..."], learned: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    r"""The probability to be put on the wrong side of a value once a share is learned.

    A normal variable whose probability to be above has the score $a$ is put on the side of its new
    mean, of correlation $\rho$ with it: both are on opposite sides with probability
    $2 T(a, \sqrt{1/\rho^2 - 1})$, with the function of Owen (1956).
    """
    share = np.clip(learned, 0.0, 1.0)
    scores, share = np.broadcast_arrays(scores, share)
    slope = np.full(share.shape, np.inf)
    # Farther from the value than a measurement could move it, nothing changes.
    near = share * 36 > scores**2
    slope[near] = np.sqrt(1 / np.maximum(share[near], 1e-300) - 1)
    return 2 * owens_t(scores, slope)


def condition_on(joint: JointDraws, place: int) -> JointDraws:
    """The same after a measurement there: draws are moved so that their covariances are those that
    then hold, without noise of their own (the square-root filter of Potter 1963)."""
    own = joint.predictor[:, place]
    variance = float(own @ own)
    if variance <= 0:
        return joint
    gain = 1 / (variance + joint.noise[place])
    shift = (1 - np.sqrt(1 - min(gain * variance, 1.0))) / variance
    sides = joint.sides
    if sides is not None:
        held = np.einsum("dp,dp->p", joint.parts, joint.parts)[:, None]
        result = square_of((joint.parts.T @ own)[:, None], held, own[None] @ own, joint.worth)[:, 0]
        taken = np.clip(sides.taken + gain * result, 0.0, sides.variance)
        sides = dataclasses.replace(sides, taken=taken)
    parts, predictor = (
        one - shift * np.outer(own, own @ one) for one in (joint.parts, joint.predictor)
    )
    return dataclasses.replace(joint, parts=parts, predictor=predictor, sides=sides)


def errors(joint: JointDraws, places: Int[np.ndarray, " some"]) -> Float[np.ndarray, " some"]:
    """Monte-Carlo errors of the shares that measurements alone would take: by leaving draws out,
    those that belong together at once (Quenouille's jackknife)."""
    if np.isinf(joint.worth):
        return np.zeros(len(places))
    count = len(joint.predictor)
    half = (count + 1) // 2
    groups = (np.arange(count) % half) * NUM_GROUPS // half
    left = (joint.without(groups == one, places) for one in np.unique(groups))
    result = np.array([drops(one) / max(amount(one), 1e-300) for one in left])
    spread = np.sum((result - result.mean(axis=0)) ** 2, axis=0)
    return np.sqrt(spread * (len(result) - 1) / len(result))


@dataclass(frozen=True, eq=False)
class NextPlaces:
    """What a further measurement would tell of a quantity, at each of the places.

    `reduction` is what it would take on average from `before`, which `words` describe, by itself;
    `error` is the Monte-Carlo error of the `share`, NaN beyond the best places. The rows `chosen`
    are the best together, one after the other, and `cumulative` what so many of them would take.
    """

    quantity: str
    words: str
    points: Float[np.ndarray, "place dim"]
    before: float
    reduction: OfPlaces
    error: OfPlaces
    chosen: Int[np.ndarray, " chosen"]
    cumulative: Float[np.ndarray, " chosen"]
    noise_sd: OfPlaces
    num_draws: int

    @property
    def share(self) -> OfPlaces:
        """Of what there is to be learned."""
        return self.reduction / self.before


def best_places(
    joint: JointDraws, points: Float[np.ndarray, "place dim"], count: int, quantity: str, words: str
) -> NextPlaces:
    """The best for one measurement, then the best to follow, and so on; no place is taken twice."""
    if not 1 <= count <= len(points):
        raise RieszError(
            f"{count} places are to be chosen among {len(points)} candidates: choose at least one, "
            "and at most as many as there are."
        )
    before = amount(joint)
    if not before > 0:
        raise RieszError(
            f"there is nothing to be learned of {quantity}: the {words} is zero in the draws of "
            "the posterior."
        )
    result = alone = drops(joint)
    chosen, cumulative, left = [], [], joint
    for number in range(count):
        if number:
            left = condition_on(left, chosen[-1])
            result = drops(left)
        result[chosen] = -np.inf
        chosen.append(int(np.argmax(result)))
        cumulative.append(max(float(result[chosen[-1]]), 0.0))
    order = np.unique([*np.argsort(-alone)[:MOST_ERRORS], *chosen])
    error = np.full(len(points), np.nan)
    error[order] = errors(joint, order)
    return NextPlaces(
        quantity=quantity,
        words=words,
        points=points,
        before=before,
        reduction=np.maximum(alone, 0.0),
        error=error,
        chosen=np.array(chosen),
        cumulative=np.cumsum(cumulative),
        noise_sd=np.sqrt(joint.noise),
        num_draws=len(joint.predictor),
    )
