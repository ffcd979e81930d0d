"""Blind problems: what is drawn, when a fit counts as wrong, and rows that survive a stop."""

import json
from pathlib import Path

import numpy as np
import pytest

from riesz.diagnose.criticism.findings import Finding
from riesz.errors import OutOfTimeError, RieszError
from riesz.notes import text_note
from riesz_paper.experiments.blind.breaks import PRIOR, TERM, Break, points_at, visibility
from riesz_paper.experiments.blind.ground import ground, scattered
from riesz_paper.experiments.blind.judge import Moments, compared, row_of
from riesz_paper.experiments.blind.problem import draw_problem, draw_site
from riesz_paper.experiments.blind.reference import (
    CHAINS,
    CLOSED,
    Reference,
    chains,
    closed_form,
    quadrature,
    searched,
)
from riesz_paper.experiments.blind.share import done_row, row_file, share_of
from riesz_paper.experiments.blind.tables import is_false_alarm, is_silent, summarise, table
from riesz_paper.experiments.blind.weighed import Part, drawn, log_mixture

ROOT = Path(__file__).parents[3]


def test_shares_make_up_all_problems_and_no_problem_twice():
    shares = [share_of(f"{k}/7", 40) for k in range(1, 8)]
    assert sorted(n for one in shares for n in one) == share_of(None, 40) == list(range(40))
    for wrong in ("8/7", "0/7", "a/7", "3"):
        with pytest.raises(RieszError, match="--part"):
            share_of(wrong, 40)


def test_a_crash_is_a_row_and_is_not_done_again(tmp_path):
    def crashing(seed, number):
        raise ZeroDivisionError(f"problem {number}")

    row = done_row(tmp_path, 3, 11, crashing)
    assert row["verdict"] == "crash"
    file = row_file(tmp_path, 3, 11)
    assert "ZeroDivisionError: problem 11" in file.with_suffix(".txt").read_text()
    again = done_row(tmp_path, 3, 11, lambda seed, number: pytest.fail("done again"))
    assert again == row
    assert summarise([row])["crashes"] == 1


def test_a_fit_without_a_posterior_in_its_time_is_no_crash_and_not_judged(tmp_path):
    def late(seed, number):
        raise OutOfTimeError("the time was over in the warm-up.")

    row = done_row(tmp_path, 3, 12, late)
    found = summarise([row])
    assert row["verdict"] == "out of time"
    assert (found["crashes"], found["judged"], found["problems"]) == (0, 0, 1)


def test_the_same_number_draws_the_same_site_and_others_other_ones():
    one, again, other = (draw_site(np.random.default_rng([5, n]))[0] for n in (1, 1, 2))
    np.testing.assert_array_equal(one.sensors, again.sensors)
    np.testing.assert_array_equal(one.ground.mesh.nodes, again.ground.mesh.nodes)
    assert one.model.terms == again.model.terms
    assert one.sensors.shape != other.sensors.shape or (one.sensors != other.sensors).any()


def test_grounds_have_some_hundred_nodes_two_ends_and_places_inside():
    for number in range(3):
        rng = np.random.default_rng(number)
        one = ground(rng, 100.0, wants_river=False)
        assert 100 <= one.mesh.num_nodes <= 650
        assert {"inflow", "outflow"} <= set(one.mesh.facets)
        places = scattered(one.mesh, 20, rng, clustered=True)
        assert (places >= one.mesh.nodes.min(axis=0)).all()
        assert (places <= one.mesh.nodes.max(axis=0)).all()


def moments(shift: float, ratio: float, error: float = 0.0) -> Moments:
    sizes = np.array([1.0, 2.0])
    return Moments(shift * sizes, ratio * sizes, np.full(2, error), np.full(2, error))


EXACT = Reference(CLOSED, np.zeros(2), np.array([1.0, 2.0]))


def test_a_fit_is_wrong_beyond_limits_and_chance_and_right_within_half_of_them():
    assert compared(moments(0.31, 1.0), EXACT)["is_wrong"]
    assert not compared(moments(0.29, 1.0), EXACT)["is_wrong"]
    assert compared(moments(0.0, 1.26), EXACT)["is_wrong"]
    assert compared(moments(0.0, 0.79), EXACT)["is_wrong"]
    assert not compared(moments(0.31, 1.0, error=0.12), EXACT)["is_wrong"]
    assert compared(moments(0.14, 1.1), EXACT)["is_right"]
    assert not compared(moments(0.16, 1.0), EXACT)["is_right"]


def row(**more):
    told = {
        "family": "number",
        "engine": "laplace",
        "verdict": "good",
        "reference": "chains",
        "is_wrong": False,
        "is_right": True,
        "misspecified": False,
        "break": None,
        "points_at_break": None,
        "findings": 0,
        "coverage95": 0.95,
        "seconds": 20.0,
    }
    return told | more


def test_what_is_said_and_what_is_so_make_silent_failures_and_false_alarms():
    wrong = {"is_wrong": True, "is_right": False}
    assert is_silent(row(**wrong))
    assert not is_silent(row(**wrong, verdict="doubtful"))
    assert not is_silent(row(**wrong, reference="unsettled"))
    assert is_false_alarm(row(verdict="failed"))
    assert not is_false_alarm(row(verdict="failed", **wrong))
    rows = [row(), row(**wrong), row(verdict="doubtful"), row(misspecified=True)]
    rows[3] |= {"break": "zone", "points_at_break": True}
    found = summarise(rows)
    assert (found["silent"], found["false_alarms"], found["pointed_at"]) == (1, 1, 1)
    assert found["silent_share"][1] < 0.25 < found["silent_share"][2]
    assert "| all | 4 | 4 | 1 (" in table(found)


def test_a_word_points_at_a_break_by_its_unknown_or_by_its_places():
    some, moved = text_note(""), np.array([9.0, 8.0, 7.0, *np.zeros(9)])
    term = Break(TERM, "source", ("f",), moved, moved, 6.0)
    assert points_at(term, [Finding("region", some, places=(0, 2, 5))])
    assert not points_at(term, [Finding("region", some, places=(0, 5, 6, 7))])
    assert points_at(term, [Finding("prior", some, names=("f",))])
    assert not points_at(term, [Finding("prior", some, names=("a",)), Finding("tails", some)])
    off = Break(PRIOR, "prior of a", ("a",), moved, moved, 3.0)
    assert points_at(off, [Finding("prior", some, names=("a",))])
    assert not points_at(off, [Finding("region", some, places=(0, 1, 2))])


def test_a_move_that_the_prior_makes_up_for_is_seen_by_its_prior_sds_alone():
    slopes = 100 * np.eye(6)[:, :1]
    seen, left = visibility(3 * slopes[:, 0], slopes)
    np.testing.assert_allclose(seen, 3.0, rtol=1e-3)
    assert np.abs(left).max() < 0.1
    np.testing.assert_allclose(visibility(5 * np.eye(6)[1], slopes)[0], 5.0)


def test_weights_of_a_mixture_integrate_a_normal_density():
    rng, parts = (
        np.random.default_rng(0),
        [Part(np.zeros(2), np.eye(2)), Part(np.ones(2), np.eye(2))],
    )
    rows = drawn(parts, 20_000, rng)
    weights = np.exp(-0.5 * np.sum((rows - 0.5) ** 2, axis=1) - log_mixture(parts, rows))
    np.testing.assert_allclose(weights @ rows / weights.sum(), [0.5, 0.5], atol=0.03)


def test_the_book_has_the_table_of_the_run_that_is_kept():
    kept = ROOT / "results" / "blind" / "results.json"
    told = (ROOT / "paper" / "docs" / "blind.md").read_text(encoding="utf-8")
    assert table(json.loads(kept.read_text())["summary"]) in told


@pytest.mark.slow
def test_a_problem_with_one_unknown_is_judged_alike_by_a_grid_and_by_chains():
    blind = draw_problem(0, 3)
    assert closed_form(blind) is None
    ends = searched(blind.problem, 0)
    exact = quadrature(blind, ends)
    assert exact is not None
    sampled = chains(blind, ends, np.diag(exact.sd**2), 60.0)
    assert sampled.kind == CHAINS
    np.testing.assert_allclose(sampled.mean, exact.mean, atol=0.15 * exact.sd.max())
    np.testing.assert_allclose(sampled.sd, exact.sd, rtol=0.1)


@pytest.mark.slow
def test_a_problem_with_one_unknown_is_fitted_rightly_and_its_break_is_told():
    found = row_of(0, 3)
    assert (found["verdict"], found["reference"], found["break"]) == ("good", "quadrature", "zone")
    assert found["is_right"]
    assert found["points_at_break"]
