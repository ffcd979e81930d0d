"""The trust panel says in words what each figure means, and the worst of them counts."""

import numpy as np
import pytest

from riesz.case.report.trust import BAD, DOUBTFUL, GOOD, OPEN, Verdict, grade, overall, verdicts
from riesz.diagnose.criticism.findings import Finding, Misfit
from riesz.notes import Note, Severity, text_note
from riesz.posterior.checks import (
    EXACT,
    PARTLY,
    SAMPLED,
    WEIGHED,
    ImportanceCheck,
    SamplerCheck,
    SurrogateError,
)
from riesz.prediction.sensors import DataFit


def importance(k_hat=0.1, effective=900.0, shift=0.0, ratio=1.0, *, is_applied=False):
    one, small = np.ones(1), np.full(1, 0.01)
    moments = (0 * one, one, shift * one, small, ratio * one, small)
    return ImportanceCheck(("a",), 1000, k_hat, effective, *moments, is_applied)


def told(check=None, surrogate=None, **changes):
    usual = {
        "met": DataFit(100, 0, 1.0, 0.95),
        "contraction": {"a": 0.8},
    }
    found = verdicts(check, surrogate, **(usual | changes))
    return {one.name: one for one in found}


def test_a_good_posterior_is_called_good():
    found = told(importance())
    assert {one.level for one in found.values()} == {GOOD}
    assert overall(list(found.values()), ()) == GOOD


def test_a_model_that_nothing_contradicts_is_called_good():
    none = Misfit((), np.zeros(3), np.zeros(3))
    assert told(importance(), misfit=none)["Model against data"].level == GOOD
    found = (Finding("prior", Note("prior_field", field="a", size=2.0), ("a",), (), 1e-4),)
    caution = Note("posterior_in_doubt", reason=Note("k_hat_high", value=0.8))
    wrong = Misfit(found, np.zeros(3), np.zeros(3), None, caution)
    doubted = told(importance(0.8), misfit=wrong)
    assert doubted["Model against data"].words == str(caution)
    assert doubted["Prior against data"].level == DOUBTFUL


@pytest.mark.parametrize(("k_hat", "level"), [(0.5, GOOD), (0.6, DOUBTFUL), (0.71, BAD)])
def test_k_hat_is_judged_as_the_summary_judges_it(k_hat, level):
    assert told(importance(k_hat))["k-hat (tail of the weights)"].level == level


def test_what_is_no_number_is_bad():
    assert grade(float("nan"), 1.0, 2.0) == BAD
    assert grade(float("inf"), 1.0, 2.0) == BAD


def test_a_q_of_the_wrong_width_or_place_is_told_with_the_unknown():
    narrow = told(importance(ratio=0.6))["Widths against exact solves"]
    assert narrow.level == DOUBTFUL
    assert "interval of a is too narrow, 0.60" in narrow.words
    moved = told(importance(shift=1.5))["Means against exact solves"]
    assert moved.level == BAD
    assert "+1.50 standard deviations" in moved.words


def test_a_posterior_that_was_corrected_is_judged_by_what_its_draws_are_worth():
    found = told(importance(k_hat=0.4, effective=450.0, shift=1.5, ratio=0.6, is_applied=True))
    assert {one.level for one in found.values()} == {GOOD}
    assert "means and intervals are corrected" in found["k-hat (tail of the weights)"].words
    few = told(importance(k_hat=0.6, effective=250.0, is_applied=True))
    assert few["Effective draws"].level == DOUBTFUL
    assert few["k-hat (tail of the weights)"].level == DOUBTFUL
    assert "intervals may still be too narrow" in few["k-hat (tail of the weights)"].words


def test_moments_of_a_few_draws_that_have_all_the_weight_are_not_told():
    found = told(importance(k_hat=2.0, effective=3.0))
    assert found["Effective draws"].level == BAD
    assert "Widths against exact solves" not in found


def test_a_sampler_is_judged_by_agreement_worth_and_divergences():
    good = told(SamplerCheck(4, 500, 1.002, 800.0, 5))
    assert {one.level for one in good.values()} == {GOOD}
    poor = told(SamplerCheck(4, 500, 1.3, 40.0, 9))
    assert poor["r_hat (agreement of chains)"].level == BAD
    assert poor["Effective draws"].level == BAD
    assert poor["Divergences"].level == DOUBTFUL
    assert poor["Divergences"].found == "9 of 2000"


def test_a_surrogate_is_judged_at_the_sensors_and_by_its_residual():
    one = np.ones(3)
    good = told(importance(), SurrogateError(0.01 * one, 0.01 * one, 0.02 * one))
    assert good["Emulator at the sensors"].level == GOOD
    assert good["Dual residual"].found == "1.00% of the state, efficiency index 1.00"
    poor = told(importance(), SurrogateError(0.001 * one, 0.01 * one, 0.7 * one))
    assert poor["Emulator at the sensors"].level == BAD
    assert poor["Dual residual"].level == BAD


def test_an_approximation_that_nobody_checked_is_called_so_and_an_exact_one_is_not():
    assert told()["Check by exact solves"].level == told(method=PARTLY)["Method"].level == OPEN
    assert "--check" in told()["Check by exact solves"].words
    assert told(method=EXACT)["Method"].level == told(method=WEIGHED)["Method"].level == GOOD
    assert 'name = "mcmc"' in told(method=PARTLY)["Method"].words
    assert told(method=SAMPLED)["r_hat (agreement of chains)"].level == BAD


@pytest.mark.parametrize(
    ("rms", "level"), [(1.0, GOOD), (1.5, DOUBTFUL), (3.0, BAD), (0.2, DOUBTFUL)]
)
def test_residuals_far_from_the_noise_are_told(rms, level):
    assert told(importance(), met=DataFit(100, 0, rms, 0.95))["Residuals"].level == level


def test_coverage_allows_for_the_number_of_measurements():
    name = "Coverage of 95 % intervals"
    assert told(importance(), met=DataFit(10, 0, 1.0, 0.8))[name].level == GOOD
    assert told(importance(), met=DataFit(1000, 0, 1.0, 0.8))[name].level == DOUBTFUL
    assert told(importance(), met=DataFit(1000, 990, 1.0, 0.8))[name].level == GOOD
    assert told(importance(), met=DataFit(1000, 0, 1.0, 0.3))[name].level == BAD


def test_where_all_values_are_limits_nothing_is_said_of_residuals():
    found = told(importance(), met=DataFit(5, 5, None, None))
    assert not {"Residuals", "Coverage of 95 % intervals"} & set(found)


def test_an_unknown_that_the_data_say_nothing_of_is_told():
    found = told(importance(), contraction={"a": 0.02, "b": 0.999, "c": -0.1})
    assert found["Learned about a"].level == DOUBTFUL
    assert "your prior" in found["Learned about a"].words
    assert found["Learned about b"].found == "more than 99 %"
    assert found["Learned about c"].found == "0%"


def test_the_worst_counts_and_a_warning_is_doubt():
    good, bad = (Verdict("x", "", level, "") for level in (GOOD, BAD))
    assert overall([good], ()) == GOOD
    warning = text_note("a warning")
    assert overall([good], (warning,)) == DOUBTFUL
    # That nothing was checked is no reason to doubt it, nor to call it good.
    unseen = Verdict("x", "", OPEN, "")
    assert overall([good, unseen], ()) == OPEN
    assert overall([good, unseen], (warning,)) == DOUBTFUL
    assert overall([good, bad], (warning,)) == BAD
    assert overall([good], (Note("not_placed", file="a.toml", outline="b.csv"),)) == GOOD
    assert overall([good], (Note("other_version", saved="0.0.7", own="0.1"),)) == GOOD


def test_what_auto_did_is_no_warning_unless_nothing_passed():
    good = Verdict("k-hat", "0.1", GOOD, "")
    failed = Note("engine_inadequate", engine="laplace", reason=Note("k_hat_high", value=0.9))
    took = Note("auto_started", engine="laplace", reason=Note("normal_first", size=2))
    last = Note("engine_adequate", engine="mcmc")
    passed = (took, failed.with_severity(Severity.INFO), last)
    assert overall([good], passed) == GOOD
    assert overall([good], (*passed, text_note("another warning"))) == DOUBTFUL
    assert overall([good], (took, failed)) == DOUBTFUL
