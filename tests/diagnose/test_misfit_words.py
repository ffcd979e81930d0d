"""Words on residuals are silent on what is sure and next to nothing, and count by one interval."""

import numpy as np
import pytest

from riesz.diagnose.criticism.findings import TOLD, Readers
from riesz.diagnose.criticism.law import Law
from riesz.diagnose.criticism.patterns import region_findings, site_points
from riesz.diagnose.criticism.predictive_checks import HEAVY
from riesz.diagnose.criticism.sizes import Against, scatter_findings, tails

COUNT, COPIES = 3200, 1500
NOISE = "normal, sd 0.1"
READERS = Readers(np.repeat(np.random.default_rng(0).uniform(size=(16, 2)), COUNT // 16, axis=0))


def against(make):
    """Residuals made of standard normal ones, and copies that are these."""
    rng = np.random.default_rng(1)
    normals = rng.normal(size=COUNT)
    normals = (normals - normals.mean()) / normals.std()
    return Against(make(normals), rng.normal(size=(COPIES, COUNT)))


@pytest.mark.parametrize(
    ("factor", "told"),
    [(1.047, None), (0.953, None), (1.3, "noise_larger"), (0.7, "noise_smaller")],
)
def test_scatter_that_is_nearly_that_of_the_noise_is_no_remark(factor, told):
    notes = [
        one.note for one in scatter_findings(against(lambda own: factor * own), READERS, NOISE)
    ]
    assert [note.code for note in notes] == ([told] if told else [])
    assert [note.values["size"] for note in notes] == (
        [pytest.approx(factor, rel=0.03)] * len(notes)
    )


def test_less_scatter_beside_a_few_far_off_is_not_told_as_more_and_less_at_once():
    """All together they lie 1.2 times as far as the noise says: that it is smaller is wrong."""
    few = against(lambda own: np.where(np.arange(COUNT) < 40, 9.0, 0.8 * own))
    assert scatter_findings(few, READERS, NOISE) == []


def by_places(shift):
    """Of one place all are shifted; readings of a place have next to no freedom as a whole."""
    own = against(lambda normals: normals)
    means = own.residuals.reshape(16, -1).mean(axis=1)
    residuals = own.residuals - np.repeat(means, COUNT // 16)
    residuals[: COUNT // 16] += shift
    copies = own.copies.reshape(COPIES, 16, -1)
    copies = (copies - 0.99 * copies.mean(axis=2, keepdims=True)).reshape(COPIES, COUNT)
    return Against(residuals, copies)


@pytest.mark.parametrize(("shift", "count"), [(0.02, 0), (1.0, 1)])
def test_a_region_whose_size_rounds_to_nothing_is_no_remark(shift, count):
    law = Law(np.zeros((COUNT, 1)), np.zeros(1))
    found = region_findings(
        by_places(shift), law, site_points(READERS.points), READERS, np.ones(COUNT)
    )
    means = [one.note.values["mean"] for one in found]
    assert len([mean for mean in means if mean > 0]) == count
    assert all(abs(mean) >= TOLD for mean in means)


def test_tails_are_counted_by_the_interval_of_what_all_others_foretell():
    """Most lie closer than the noise says: what is usual for them is well inside."""
    narrow = against(lambda own: np.where(np.arange(COUNT) < 60, 5.0, 0.5 * own))
    (told,) = tails(narrow, READERS, NOISE, HEAVY)
    outside = np.flatnonzero(np.abs(narrow.residuals) > 2.5)
    assert set(told.places) == set(outside.tolist())
    values = told.note.values
    assert (told.note.code, values["count"], values["total"]) == (
        "heavy_tails",
        len(outside),
        COUNT,
    )
    assert (values["limit"], values["largest"], values["advice"]) == (2.5, 5.0, HEAVY)


def test_tails_that_stay_inside_are_no_remark():
    inside = against(lambda own: np.where(np.arange(COUNT) < 60, 1.9, 0.3 * own))
    assert tails(inside, READERS, NOISE, HEAVY) == []
