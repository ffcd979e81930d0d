"""What a further measurement would tell is what a refit with it finds, where that is known."""

import dataclasses

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import binom, lognorm, nbinom, norm, poisson, rv_discrete, t
from tests.prediction.made_up_draws import made_up_draws

from riesz.errors import RieszError
from riesz.observe.distributions import (
    BinomialDistribution,
    LogNormalDistribution,
    NegativeBinomialDistribution,
    NormalDistribution,
    NormalSumDistribution,
    PoissonDistribution,
    StudentDistribution,
)
from riesz.prediction.next_draws import candidates_at, rank_places, target
from riesz.prediction.next_places import (
    amount,
    best_places,
    compress,
    drops,
    errors,
    joint_of,
    wrong_after,
)
from riesz.priors.correlated_residual import LocalEffect

SIZE, NUM_PARTS, NUM_PLACES, NOISE = 6, 30, 12, 0.7
RNG = np.random.default_rng(0)
PARTS, SAID = RNG.normal(size=(SIZE, NUM_PARTS)), RNG.normal(size=(SIZE, NUM_PLACES))
WEIGHTS = np.full(NUM_PARTS, 1 / NUM_PARTS)
POINTS = np.zeros((NUM_PLACES, 2))


def left_after(places):
    """The weighted variance after measurements, by the formulas of linear regression."""
    measured = SAID[:, places]
    covariance = np.linalg.inv(np.eye(SIZE) + measured @ measured.T / NOISE**2)
    return float(WEIGHTS @ np.einsum("rp,rs,sp->p", PARTS, covariance, PARTS))


def joint(normals, *, exact=False, predictor=SAID):
    variance = np.full(predictor.shape[1], NOISE**2)
    return joint_of(normals @ PARTS, WEIGHTS, normals @ predictor, variance, exact=exact)


def exact_normals():
    """Few draws with the moments of a standard normal vector."""
    return np.sqrt(SIZE) * np.concatenate([np.eye(SIZE), -np.eye(SIZE)])


def mirrored(rng, count, size=SIZE):
    half = rng.normal(size=(count // 2, size))
    return np.concatenate([half, -half])


def test_of_exact_moments_reductions_are_those_of_refits():
    found = drops(joint(exact_normals(), exact=True))
    refits = [left_after([]) - left_after([place]) for place in range(NUM_PLACES)]
    np.testing.assert_allclose(found, refits, rtol=1e-10)


def test_places_one_after_the_other_are_those_of_refits():
    told = best_places(joint(exact_normals(), exact=True), POINTS, 3, "u", "variance")
    taken = []
    for place, cumulative in zip(told.chosen, told.cumulative, strict=True):
        left = [left_after([*taken, one]) for one in range(NUM_PLACES)]
        open_yet = [one for one in range(NUM_PLACES) if one not in taken]
        assert place == min(open_yet, key=left.__getitem__)
        taken.append(place)
        np.testing.assert_allclose(cumulative, left_after([]) - left_after(taken), rtol=1e-10)
    assert (told.error[np.isfinite(told.error)] == 0).all()


def test_a_twin_of_the_best_place_tells_little_more():
    several = np.column_stack([SAID[:, 0], SAID[:, 0], SAID[:, 1] * 0.9])
    told = best_places(
        joint_of(
            *(exact_normals() @ PARTS, WEIGHTS, exact_normals() @ several),
            np.full(3, 1e-6),
            exact=True,
        ),
        np.zeros((3, 2)),
        2,
        "u",
        "variance",
    )
    assert set(told.chosen) & {0, 1} != {0, 1}


@pytest.mark.parametrize("mirror", [False, True])
def test_draws_find_the_same_without_bias_and_know_their_error(mirror):
    rng, refit = np.random.default_rng(1), 1 - left_after([0]) / left_after([])
    found, told = [], []
    for number in range(60):
        normals = mirrored(rng, 300) if mirror else rng.normal(size=(300, SIZE))
        own = joint(normals, predictor=SAID[:, :1])
        found.append(drops(own)[0] / amount(own))
        told += [] if number % 10 else [errors(own, np.arange(1))[0]]
    assert abs(np.mean(found) / refit - 1) < 3 * np.std(found) / refit / np.sqrt(60)
    assert np.mean(told) == pytest.approx(np.std(found), rel=0.35)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("sides", [False, True])
def test_of_a_place_that_tells_nothing_comes_nothing(mirror, sides):
    rng = np.random.default_rng(2)
    normals, others = (
        mirrored(rng, 300, size) if mirror else rng.normal(size=(300, size)) for size in (SIZE, 400)
    )
    parts = normals @ PARTS
    above = parts > rng.normal(size=NUM_PARTS) if sides else None
    own = joint_of(parts, WEIGHTS, others, np.full(400, 1e-3), above=above)
    told = best_places(own, np.zeros((400, 2)), 1, "u", "amount")
    assert abs(drops(own).mean()) < 2e-3 * told.before
    if not sides:  # what is left uncorrected
        naive = np.sum((own.parts.T @ own.predictor) ** 2, axis=0) / (1 + 1e-3)
        assert naive.mean() > (5 if mirror else 2.5) * 1e-3 * told.before


def test_fewer_columns_have_the_same_products():
    smooth = RNG.normal(size=(80, 12)) @ RNG.normal(size=(12, 300))
    few = compress(smooth)
    assert few.shape[1] <= 13
    np.testing.assert_allclose(few @ few.T, smooth @ smooth.T, atol=1e-3 * np.sum(smooth**2) / 80)


def test_sides_of_a_value_are_mistaken_as_often_as_simulated_measurements_mistake_them():
    rng, scores = np.random.default_rng(3), np.array([0.0, 0.3, 1.2, 2.0])
    for share in (0.0, 0.1, 0.5, 0.95, 1.0):
        means = scores + np.sqrt(share) * rng.normal(size=(200_000, 1))
        wrong = ndtr(-np.abs(means) / np.sqrt(max(1 - share, 1e-12))).mean(axis=0)
        np.testing.assert_allclose(wrong_after(scores, np.full(4, share)), wrong, atol=2e-3)


SCATTERS = [
    (NormalDistribution(), {"sd": 0.4}, lambda s: norm(s, 0.4)),
    (NormalSumDistribution(("sd", "more")), {"sd": 0.3, "more": 0.4}, lambda s: norm(s, 0.5)),
    (StudentDistribution(4.0), {"sd": 0.4}, lambda s: t(4.0, s, 0.4)),
    (LogNormalDistribution("log"), {"sd": 0.3}, lambda s: lognorm(0.3, scale=np.exp(s))),
    (LogNormalDistribution("identity"), {"sd": 0.3}, lambda s: lognorm(0.3, scale=s)),
    (PoissonDistribution("log"), {"exposure": 3.0}, lambda s: poisson(3 * np.exp(s))),
    (PoissonDistribution("identity"), {"exposure": 3.0}, lambda s: poisson(3 * s)),
    (
        NegativeBinomialDistribution("log"),
        {"exposure": 3.0, "concentration": 2.0},
        lambda s: nbinom(2.0, 2 / (2 + 3 * np.exp(s))),
    ),
    (BinomialDistribution("logit"), {"trials": 20.0}, lambda s: binom(20, expit(s))),
]


@pytest.mark.parametrize(("scatter", "parameters", "law"), SCATTERS)
def test_the_noise_of_any_kind_is_that_of_its_information(scatter, parameters, law):
    predictor, step = 0.8, 1e-4
    given = {name: np.array([[value]]) for name, value in parameters.items()}
    sd = scatter.equivalent_sd(np.array([[predictor]]), given)[0, 0]
    here, low, high = law(predictor), law(predictor - step), law(predictor + step)
    if isinstance(here.dist, rv_discrete):
        values = np.arange(400)
        weights, logs = here.pmf(values), (low.logpmf(values), high.logpmf(values))
    else:
        values, width = np.linspace(*here.ppf((1e-7, 1 - 1e-7)), 200_001, retstep=True)
        weights, logs = width * here.pdf(values), (low.logpdf(values), high.logpdf(values))
    kept = weights > 0
    slopes = (logs[1][kept] - logs[0][kept]) / (2 * step)
    assert sd**-2 == pytest.approx(np.sum(weights[kept] * slopes**2), rel=2e-3)


def at_nodes(draws, **words):
    return candidates_at(draws, draws.mesh.nodes, None, **words)


@pytest.mark.parametrize("name", ["u", "a", "f", "exceed:100"])
def test_each_quantity_is_better_known_where_the_state_goes_with_it(name):
    draws = made_up_draws(num_draws=400, noise=0.2)
    told = rank_places(target(draws, name), at_nodes(draws), 2)
    best = told.share[told.chosen[0]]
    if name in ("u", "exceed:100"):
        assert 0.2 < best < 1
        assert told.cumulative[1] > told.cumulative[0]
    else:  # fields that were drawn apart from the state
        assert best < 4 * told.error[told.chosen[0]]
    exact = rank_places(target(draws, name), at_nodes(draws, noise_sd=0.001), 1)
    assert exact.share.max() >= best


def test_a_wider_noise_tells_less():
    draws = made_up_draws(num_draws=100)
    few, many = (
        rank_places(target(draws, "u"), at_nodes(draws, noise_sd=sd), 1).share for sd in (9.0, 0.1)
    )
    assert (few < many).all()


def test_what_neighbours_share_is_noise_to_others():
    plain, rng = made_up_draws(num_draws=60), np.random.default_rng(0)
    local = LocalEffect(rng.uniform(size=(9, 2)), 0.5, 0.1)
    scales = np.tile([0.5, 0.1], (60, 1))
    weights = np.hstack([scales, np.zeros((60, len(local.places)))])
    shifts = dataclasses.replace(plain.shifts, local=local, local_weights=weights)
    shared = at_nodes(dataclasses.replace(plain, shifts=shifts))
    left = local.moments_at(plain.mesh.nodes, weights).sd[0] ** 2
    np.testing.assert_allclose(shared.variance, at_nodes(plain).variance + left, rtol=1e-9)


def test_what_cannot_be_asked_is_told():
    draws = made_up_draws(num_draws=60)
    there = at_nodes(draws)
    for name, words in (
        ("ff", "did you mean 'f'"),
        ("exceed:high", "names no value"),
        ("exceed:nan", "names no value"),
        ("budget:sorce", "did you mean 'source'"),
    ):
        with pytest.raises(RieszError, match=words):
            target(draws, name)
    for name in ("noise", "budget:source", "exceed:1e9"):  # which are known
        with pytest.raises(RieszError, match="nothing to be learned"):
            rank_places(target(draws, name), at_nodes(draws))
    with pytest.raises(RieszError, match="chosen among 36 candidates"):
        rank_places(target(draws, "u"), at_nodes(draws), 37)
    with pytest.raises(RieszError, match="positive sd"):
        at_nodes(draws, noise_sd=0.0)
    with pytest.raises(RieszError, match="NaN or infinite"):
        rank_places(dataclasses.replace(target(draws, "f"), parts=np.full((60, 36), np.inf)), there)
    few = made_up_draws(num_draws=10)
    with pytest.raises(RieszError, match="at least 20"):
        rank_places(target(few, "u"), at_nodes(few))
