"""The aquifer experiment on a made-up plain: rows, scores, pairs, and its models of head."""

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from riesz.errors import RieszError
from riesz.mesher.polygon import mesh_from_polygon
from riesz.problem.linearity import linear_parts
from riesz_paper.baselines.linear_trend import linear_trend
from riesz_paper.data.esrp import Aquifer, Elevation, Split, Wells, esrp
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells
from riesz_paper.experiments.aquifer import experiment
from riesz_paper.experiments.aquifer.data import EVERY, NEAR, mesh_of, places_of
from riesz_paper.experiments.aquifer.experiment import aquifer_experiment, row, scores_of
from riesz_paper.experiments.aquifer.later import (
    READINGS,
    Change,
    at_another_time,
    change_between_decades,
)
from riesz_paper.experiments.aquifer.methods import BY_NAME, GP_LINEAR, NETWORK, STRUCTURES
from riesz_paper.experiments.aquifer.model import KM, Structure, conditional_head, head_problem
from riesz_paper.experiments.aquifer.select import blocks_of, chosen, frozen_choice
from riesz_paper.experiments.aquifer.tables import comparisons, mean_scores, paired, published_tasks

RNG = np.random.default_rng(5)


def made_up_wells(points):
    centred = (points - points.mean(axis=0)) / 50e3
    head = 4500 + 60 * centred[:, 0] - 30 * centred[:, 1] ** 2 + RNG.normal(size=len(points))
    numbers = tuple(f"43{i:013d}" for i in range(len(points)))
    return Wells(numbers, numbers, points, head, head + RNG.uniform(200, 700, len(points)))


WELLS = made_up_wells(aquifer_wells(60, seed=1))
INSIDE = np.arange(60) < 45
SPLIT = Split(
    "B1", WELLS.subset(INSIDE), WELLS.subset(~INSIDE), np.linspace(0.0, 50.0, (~INSIDE).sum())
)
PLAIN = Aquifer(
    Path("made-up"),
    aquifer_outline(),
    aquifer_outline()[:4],
    (),
    Elevation(np.zeros(1), np.zeros(1), np.zeros((1, 1))),
    {"A": (SPLIT,), "B1": (SPLIT,), "B2": (SPLIT,), "D": (SPLIT, SPLIT)},
)


def test_scores_of_a_known_normal_prediction_are_those_of_the_textbook():
    levels = (np.arange(4000) + 0.5) / 4000
    sd_feet = 12.0
    draws = SPLIT.test.head[None, :] + 5.0 + sd_feet * scipy.stats.norm.ppf(levels)[:, None]
    spread = SPLIT.training.head.std()
    scores = scores_of(PLAIN, "B1", (draws,), "head", EVERY)
    np.testing.assert_allclose(scores.feet, 5.0, rtol=1e-3)
    np.testing.assert_allclose(scores.absolute, 5.0 / spread, rtol=1e-3)
    np.testing.assert_allclose(scores.squared, (5.0 / spread) ** 2, rtol=1e-3)
    density = scipy.stats.norm(5.0 / spread, sd_feet / spread).logpdf(0.0)
    np.testing.assert_allclose(scores.nlpd, -density, atol=2e-3)
    assert scores.inside.all()


def test_depth_has_the_errors_of_head_in_feet_and_its_own_standard():
    draws = SPLIT.test.head[None, :] + RNG.normal(3.0, 10.0, (500, len(SPLIT.test.head)))
    head, depth = (scores_of(PLAIN, "B1", (draws,), q, EVERY) for q in ("head", "depth"))
    np.testing.assert_allclose(depth.feet, head.feet)
    ratio = SPLIT.training.head.std() / (SPLIT.training.surface - SPLIT.training.head).std()
    np.testing.assert_allclose(depth.crps, ratio * head.crps, rtol=1e-9)


def test_near_wells_are_those_within_25_km_and_blocks_are_pooled():
    draws = np.tile(SPLIT.test.head, (10, 1)) + RNG.normal(size=(10, 15))
    near = scores_of(PLAIN, "B1", (draws,), "head", NEAR)
    assert len(near.inside) == (SPLIT.hull_distance_km < 25).sum()
    assert len(scores_of(PLAIN, "D", (draws, draws), "head", EVERY).inside) == 30


def test_a_row_has_the_keys_that_scripts_rely_on(monkeypatch):
    monkeypatch.setattr(
        experiment, "BY_NAME", {"plane": BY_NAME["linear-trend"]}
    )  # no need to train anything
    found = row(PLAIN, "plane", "B1", 0, "head", EVERY)
    wanted = {"mae", "mse", "nlpd", "crps", "coverage95", "n", "seconds"}
    assert wanted <= found.keys()
    assert found["n"] == 15
    draws = linear_trend()(places_of(SPLIT.training), SPLIT.training.head, seed=0)(
        places_of(SPLIT.test)
    )
    expected = np.abs(np.median(draws, axis=0) - SPLIT.test.head).mean()
    np.testing.assert_allclose(found["mae_feet"], expected)


def test_another_time_adds_spread_in_common_and_well_by_well():
    draws = RNG.normal(4500.0, 3.0, (20_000, 2))
    later = at_another_time(draws, Change(common=4.0, own=2.0), seed=1)
    np.testing.assert_allclose(later.mean(axis=0), draws.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(later.std(axis=0), np.sqrt(9 + 16 + 4), rtol=0.03)
    np.testing.assert_allclose(np.cov(later.T)[0, 1], 16.0, rtol=0.1)  # what wells share


def test_change_is_that_of_medians_of_training_wells_read_in_both_decades(tmp_path):
    one, two, three = SPLIT.training.site_numbers[:3]
    kept = {
        one: (("1961-01-01", 10.0), ("1969-12-31", 12.0), ("1970-01-01", 14.0)),
        two: (("1965-05-05", 20.0), ("1979-05-05", 21.0), ("1980-05-05", 99.0)),
        three: (("1965-05-05", 5.0),),
    }
    rows = [f"{site},{day},{head}," for site, own in kept.items() for day, head in own]
    text = "\n".join(["site_no,date,head_ft,drop_reason", *rows, f"{two},1975-01-01,77.0,pumped"])
    (tmp_path / READINGS).write_bytes(gzip.compress(text.encode()))
    found = change_between_decades(dataclasses.replace(PLAIN, folder=tmp_path))
    np.testing.assert_allclose([found.common, found.own], [2.0, np.sqrt(2)])  # of 3 and 1


def test_heads_of_the_plain_rose_between_the_decades(esrp_folder):
    found = change_between_decades(esrp(esrp_folder))
    np.testing.assert_allclose([found.common, found.own], [2.29, 1.55], atol=0.01)


def test_the_quick_run_has_split_b1_and_every_method_once():
    tasks = aquifer_experiment(PLAIN, 0, "quick").tasks
    own = [task.identity for task in tasks if task.identity["role"] != "published"]
    assert {t["split"] for t in own} == {"B1"}
    assert len(own) == 4 * len(BY_NAME)  # two quantities, two subsets
    assert {t["method"] for t in own if t["selected"]} == {frozen_choice()}
    full = aquifer_experiment(PLAIN, 0, "full", "A").tasks
    restarts = {t.identity["restart"] for t in full if t.identity["method"] == NETWORK}
    assert restarts == set(range(5))


def test_an_unknown_split_is_told_of_before_anything_is_trained():
    with pytest.raises(RieszError, match="no split 'C': It is A, B1, B2 or D"):
        aquifer_experiment(PLAIN, 0, "quick", "C")


def test_the_selected_model_is_one_of_the_candidates():
    assert frozen_choice() in STRUCTURES


def test_the_simplest_candidate_that_is_not_clearly_behind_is_chosen():
    scattered = [-0.5, 1.5]  # a mean of 0.5 with a standard error of 1
    rows = [
        {"candidate": "far", "cv_nlpd": 2.0, "nlpd_of_blocks": [2.0, 2.0]},
        {"candidate": "simple", "cv_nlpd": 1.4, "nlpd_of_blocks": [1.4, 1.4]},
        {"candidate": "best", "cv_nlpd": 0.5, "nlpd_of_blocks": scattered},
    ]
    assert chosen(rows) == "simple"
    rows[2]["nlpd_of_blocks"] = [0.4, 0.6]
    assert chosen(rows) == "best"


def test_blocks_of_wells_are_compact_and_none_is_empty():
    blocks = blocks_of(WELLS, 4)
    assert set(blocks) == {0, 1, 2, 3}
    within = np.mean([WELLS.points[blocks == k].std(axis=0).max() for k in range(4)])
    assert within < 0.6 * WELLS.points.std(axis=0).max()


def test_pairs_find_a_difference_that_is_there_and_none_where_there_is_none():
    noise = RNG.normal(size=(2, 200))
    ahead = paired(1.0 + 0.1 * noise[0], 1.5 + 0.1 * noise[1])
    assert ahead["high"] < 0
    assert ahead["low"] < ahead["difference"] < ahead["high"]
    np.testing.assert_allclose(ahead["difference"], -0.5, atol=0.05)
    same = paired(noise[0], noise[0])
    assert same["difference"] == 0.0
    assert same["p"] == 1.0


def fake_rows(method, role, level):
    return [
        {
            "method": method,
            "role": role,
            "selected": False,
            "split": "B1",
            "quantity": "head",
            "subset": EVERY,
            "restart": k,
            "n": 15,
            "seconds": 1.0,
            **dict.fromkeys(("mae", "mse", "nlpd", "crps", "coverage95", "mae_feet"), level + k),
            **{
                f"{name}_of_wells": list(level + k + RNG.normal(size=15))
                for name in ("crps", "nlpd", "errors")
            },
        }
        for k in range(2)
    ]


def test_tables_average_restarts_and_hold_methods_against_those_without_physics():
    published = [{**task.identity, **task.run()} for task in published_tasks()]
    rows = [*fake_rows("x", "ours", 1.0), *fake_rows(GP_LINEAR, "baseline", 2.0), *published]
    means = {found["method"]: found for found in mean_scores(rows)}
    assert means["x"]["mae"] == 1.5
    assert means["x"]["runs"] == 2
    assert means["GP-DT (published)"]["mae"] == 0.158
    pairs = comparisons(rows)
    assert {(p["method"], p["against"]) for p in pairs} == {("x", GP_LINEAR)}
    assert {p["score"] for p in pairs} == {"crps", "nlpd", "mae"}


def test_the_mesh_is_fine_at_wells_and_made_once():
    mesh = mesh_of(PLAIN)
    assert mesh is mesh_of(PLAIN)
    assert mesh.num_nodes < mesh_of(PLAIN, 2.0).num_nodes


@pytest.mark.slow
def test_every_structure_leaves_few_unknowns_besides_source_and_boundary():
    mesh = mesh_from_polygon(PLAIN.outline / KM, max_edge=40.0)
    values = np.linspace(-1, 1, 60)
    counts = {
        name: len(linear_parts(head_problem(mesh, WELLS.points / KM, values, each)).others)
        for name, each in STRUCTURES.items()
    }
    # Scales of source and boundary, and the noise; then a velocity, or a diffusivity.
    assert counts["conditional-d"] == 5
    assert counts["conditional-dt"] == 7
    assert counts["gp-d"] == 5 + STRUCTURES["gp-d"].diffusivity_points
    assert counts["gp-dt"] == counts["gp-d"] + 2


@pytest.mark.slow
def test_the_physical_model_knows_less_far_from_wells():
    mesh = mesh_from_polygon(PLAIN.outline / KM, max_edge=25.0)
    predict = conditional_head(mesh, Structure())(
        places_of(SPLIT.training), SPLIT.training.head, seed=0
    )
    draws = predict(places_of(SPLIT.test))
    spread = draws.std(axis=0)
    at_wells = predict(places_of(SPLIT.training)).std(axis=0)
    assert np.median(spread) > np.median(at_wells)
    inside = np.abs(draws.mean(axis=0) - SPLIT.test.head) < 3 * spread
    assert inside.mean() > 0.85
