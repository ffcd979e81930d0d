"""The made-up aquifer has the shape and the wells it promises."""

import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.geometry.outline import contains, distance_to_outline, outline_from
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells


def test_aquifer_is_one_long_curved_plain():
    vertices = aquifer_outline()
    width, height = np.ptp(vertices, axis=0)
    assert 60 <= len(vertices) <= 100
    assert 220e3 < width < 280e3
    assert 80e3 < height < 120e3
    shapely = pytest.importorskip("shapely")
    plain = shapely.Polygon(vertices)
    assert plain.is_valid
    assert plain.exterior.is_ccw
    assert plain.area < 0.9 * plain.convex_hull.area


@pytest.mark.parametrize("num_wells", [1, 10, 300])
def test_all_wells_are_inside_and_clear_of_the_outline(num_wells):
    outline, wells = outline_from(aquifer_outline()), aquifer_wells(num_wells, seed=3)
    assert wells.shape == (num_wells, 2)
    assert contains(outline, wells).all()
    assert distance_to_outline(outline, wells).min() > 2e3


def test_most_wells_are_in_one_cluster_and_some_far_away():
    wells = aquifer_wells(200, seed=1)
    distance = np.linalg.norm(wells - np.median(wells, axis=0), axis=1)
    assert np.mean(distance < 40e3) > 0.8
    assert (distance > 60e3).sum() >= 5


def test_wells_are_the_seed_s():
    np.testing.assert_array_equal(aquifer_wells(30, seed=5), aquifer_wells(30, seed=5))
    assert (aquifer_wells(30, seed=5) != aquifer_wells(30, seed=6)).any()


def test_no_wells_is_refused():
    with pytest.raises(RieszError, match="num_wells is 0"):
        aquifer_wells(0)
