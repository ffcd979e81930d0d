"""Ranks of many data sets, in words: what is right, too narrow, too wide or off to a side."""

import dataclasses

import numpy as np
import pytest

from riesz.diagnose.calibration import Calibration

RNG = np.random.default_rng(0)
UNIFORM = (np.arange(500)[:, None] + 0.5) / 500


def calibration(ranks, **changes) -> Calibration:
    found = Calibration(
        names=("k",),
        ranks=np.asarray(ranks).reshape(-1, 1),
        contraction=np.array([0.9]),
        sensor_errors=np.full(len(ranks), 0.02),
        start_gaps=np.full(50, 0.001),
        num_unsettled=0,
        seconds=1.0,
    )
    return dataclasses.replace(found, **changes)


def test_uniform_ranks_are_calibrated():
    found = calibration(UNIFORM)
    assert found.calibrated
    assert found.p_values[0] == pytest.approx(1.0)
    assert found.coverage(0.8)[0] == pytest.approx(0.8)
    assert "nothing speaks against" in str(found)
    assert found.rows()[0]["coverage95"] == pytest.approx(0.95, abs=0.01)
    assert found.rows()[0]["histogram"] == [25] * 20


@pytest.mark.parametrize(
    ("ranks", "fault"),
    [
        (RNG.beta(0.6, 0.6, 500), "too narrow"),
        (RNG.beta(2.0, 2.0, 500), "too wide"),
        (RNG.beta(1.5, 1.0, 500), "too low"),
        (RNG.beta(1.0, 1.5, 500), "too high"),
    ],
)
def test_a_fault_has_its_name(ranks, fault):
    found = calibration(ranks)
    assert not found.calibrated
    assert any(f"posteriors are {fault}" in note for note in found.warnings())


def test_intervals_that_miss_are_told():
    found = calibration(RNG.beta(0.6, 0.6, 500))
    assert any("95% intervals of k hold" in note and "narrow" in note for note in found.warnings())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sensor_errors": np.full(500, 0.3)}, "the surrogate is off by more than 0.1"),
        ({"start_gaps": np.full(50, 2.0)}, "100% of the data sets end elsewhere"),
        ({"num_unsettled": 60}, "of 60 of 500 data sets weighed draws tell too little"),
    ],
)
def test_what_else_may_be_wrong_is_told(changes, words):
    assert any(words in note for note in calibration(UNIFORM, **changes).warnings())


def test_few_data_sets_have_few_bins():
    assert calibration(UNIFORM[::10]).histograms.shape == (1, 10)


def test_among_many_unknowns_the_worst_may_be_chance():
    """Of 64 unknowns with right posteriors, one in two would have a p-value below a hundredth."""
    for seed in range(5):
        ranks = np.random.default_rng(seed).uniform(size=(500, 64))
        found = dataclasses.replace(
            calibration(UNIFORM),
            names=tuple(f"k[{i}]" for i in range(64)),
            ranks=ranks,
            contraction=np.full(64, 0.5),
        )
        assert found.calibrated, found.warnings()
