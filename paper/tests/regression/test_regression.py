"""Regressions with a physical field find what made the data, and say how sure they are."""

import functools
import json

import numpy as np
import pytest
from scipy.special import kv

from riesz.errors import RieszError
from riesz.mesh.shapes import rectangle
from riesz_paper.regression.chain import chain
from riesz_paper.regression.chain_file import load_chain, save_chain
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.model import Structure, field_regression
from riesz_paper.regression.physical_field import modes_of, physical_field
from riesz_paper.regression.sites import encoding_of
from riesz_paper.running.scores import absolute_errors, share_inside


@functools.cache
def modes(*, transport: bool = False):
    return modes_of(rectangle((10, 10)), transport=transport)


def made_up(count: int, seed: int) -> tuple[Covariates, np.ndarray]:
    """log y = 1 + 0.8 log s + 0.5 [meadow] + a smooth field + noise of sd 0.1."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(count, 2))
    lead = np.exp(0.5 * rng.standard_normal(count))
    use = rng.choice(["forest", "meadow"], size=count)
    field = 0.5 * np.sin(2 * np.pi * points[:, 0]) * np.cos(np.pi * points[:, 1])
    logs = 1 + 0.8 * np.log(lead) + 0.5 * (use == "meadow") + field
    target = np.exp(logs + 0.1 * rng.standard_normal(count))
    return Covariates(points, {"lead": lead}, {"use": tuple(use.tolist())}), target


@pytest.fixture(scope="module")
def data():
    return made_up(120, 0)


@pytest.mark.parametrize("robust", [False, True])
def test_predictions_come_close_and_intervals_cover(data, robust):
    structure = Structure("smooth", True, "physical", robust=robust, local=False)
    predict = field_regression(structure, modes())(*data, seed=0)
    at, truth = made_up(200, 1)
    draws = predict(at)
    assert draws.shape == (1000, 200)
    # noise alone makes 0.08 of the median
    assert np.median(absolute_errors(draws, truth) / truth) < 0.11
    assert 0.9 <= share_inside(draws, truth) <= 0.99
    assert predict.noise == pytest.approx(0.1, rel=0.35)


def test_the_field_is_found_in_logarithms(data):
    predict = field_regression(Structure("smooth", True, local=False), modes())(*data, seed=0)
    places = np.array([[0.25, 0.1], [0.75, 0.1]])
    mean, sd = predict.field(places)
    high, low = 0.5 * np.sin(2 * np.pi * places[:, 0]) * np.cos(np.pi * 0.1)
    assert mean[0] - mean[1] == pytest.approx(high - low, abs=0.2)
    assert np.all(sd > 0)


def test_other_starts_end_at_nearly_the_same_prediction(data):
    method = field_regression(Structure("smooth", True, local=False), modes())
    at, _ = made_up(20, 2)
    first, second = (np.median(method(*data, seed=seed)(at), axis=0) for seed in (0, 7))
    np.testing.assert_allclose(first, second, rtol=0.03)


@pytest.mark.slow
def test_a_field_far_from_the_boundary_is_a_matern_field():
    mesh = rectangle((40, 40))
    modes = modes_of(mesh, transport=False)
    field = physical_field(modes, length=0.4)
    points = np.array([[0.5, 0.5], [0.6, 0.5], [0.5, 0.65]])
    places = encoding_of(Covariates(points, {}, {}), modes.at)(Covariates(points, {}, {}))
    scales = field.initial(places)
    found = np.asarray(field.covariance(scales, places, places))
    scaled = np.sqrt(8) / 0.4 * np.array([0.1, 0.15])
    known = 0.25 * scaled * kv(1, scaled)
    np.testing.assert_allclose(found[0, 1:], known, rtol=0.05)
    assert found[0, 0] == pytest.approx(0.25, rel=0.05)


def test_transport_without_wind_changes_nothing_and_wind_points_downwind():
    moving, resting = modes(transport=True), modes()
    field, still = physical_field(moving, length=0.4), physical_field(resting, length=0.4)
    points = np.array([[0.3, 0.5], [0.5, 0.5], [0.7, 0.5]])
    places = encoding_of(Covariates(points, {}, {}), moving.at)(Covariates(points, {}, {}))
    scales = dict(field.initial(places))
    np.testing.assert_allclose(
        field.covariance(scales, places, places),
        still.covariance(
            still.initial(places),
            *[encoding_of(Covariates(points, {}, {}), resting.at)(Covariates(points, {}, {}))] * 2,
        ),
        rtol=1e-6,
        atol=1e-9,
    )
    # A unit released at the middle is felt more downwind than upwind.
    scales["drift"] = np.array([3.0, 0.0]) + 0 * scales["drift"]
    source = moving.at(points[1:2])
    felt = np.asarray(field.responses(scales, places) @ source.T)[:, 0]
    assert felt[2] > 1.5 * felt[0]


@pytest.mark.slow
def test_a_chain_carries_what_is_not_known_of_covariates(data, tmp_path):
    covariates, target = data
    found = chain(covariates, target, "Cd", structure=Structure(local=False), modes=modes())
    at, _ = made_up(30, 3)
    places = Covariates(at.points, {}, at.categories)
    draws = found.draws(places, num_draws=300, seed=0)
    known = found.models["Cd"](at)
    assert list(draws) == ["lead", "Cd"]
    wider = np.log(draws["Cd"]).std(axis=0).mean() / np.log(known).std(axis=0).mean()
    # lead has sd 0.5 in logarithms and acts by 0.8, beside noise of 0.1
    assert 2.5 < wider < 6
    save_chain(tmp_path / "run", found)
    again = load_chain(tmp_path / "run").draws(places, num_draws=300, seed=0)
    np.testing.assert_allclose(again["Cd"], draws["Cd"], rtol=1e-6)
    path = tmp_path / "run" / "chain.json"
    whole = json.loads(path.read_text())
    for change in (
        {"transport": None, "models": {}},
        {"training": {**whole["training"], "numbers": [1.0]}},
        {"models": {**whole["models"], "Cd": {**whole["models"]["Cd"], "target": "text"}}},
        {"models": {**whole["models"], "Cd": {**whole["models"]["Cd"], "log_noise": None}}},
        {"structure": {"numbers": "smooth", "colour": "red"}},
    ):
        path.write_text(json.dumps({**whole, **change}))
        with pytest.raises(RieszError, match="is not a saved chain"):
            load_chain(tmp_path / "run")


@pytest.mark.parametrize("content", ["", "{}", '{"models": {}}', "[1]"])
def test_what_is_no_chain_is_told(content, tmp_path):
    (tmp_path / "chain.json").write_text(content)
    with pytest.raises(RieszError, match="is not a saved chain"):
        load_chain(tmp_path)


def test_bad_input_is_told(data):
    covariates, target = data
    method = field_regression(Structure("smooth", True, "none", local=False))
    with pytest.raises(RieszError, match="119 values for 120 places"):
        method(covariates, target[1:], seed=0)
    with pytest.raises(RieszError, match=r"target is -1 at place 3 \(1 of 120"):
        method(covariates, np.where(np.arange(120) == 3, -1.0, target), seed=0)
    with pytest.raises(RieszError, match="lead is nan at place 0"):
        Covariates(covariates.points, {"lead": np.full(120, np.nan)}, {})
    with pytest.raises(RieszError, match="no number lead, which the model was trained with"):
        method(covariates, target, seed=0)(Covariates(covariates.points, {}, covariates.categories))
    with pytest.raises(RieszError, match="needs the modes of a mesh"):
        field_regression(Structure())
    with pytest.raises(RieszError, match=r"numbers is 'smoth'.*smooth"):
        Structure("smoth")
    with pytest.raises(RieszError, match="both the target and a covariate"):
        chain(covariates, target, "lead", structure=Structure(), modes=modes())


def test_a_category_that_was_never_seen_gets_the_mean_of_the_others(data):
    covariates, target = data
    predict = field_regression(Structure("smooth", True, "none", local=False))(
        covariates, target, seed=0
    )
    one = covariates.subset(np.arange(120) == 0)
    middle, *known = (
        np.median(predict(Covariates(one.points, one.numbers, {"use": (label,)})))
        for label in ("lake", "forest", "meadow")
    )
    assert min(known) < middle < max(known)
