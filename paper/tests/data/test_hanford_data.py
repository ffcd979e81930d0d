"""The Hanford Site is read as its files have it, and files that are not right are told."""

import numpy as np
import pytest
from paper.tests.data.small_hanford import small_site, write_small

from riesz.errors import FileFormatError, RieszError
from riesz_paper.data.hanford import HELD, INFLOW, hanford, site_of


@pytest.mark.parametrize(("mesh", "cells", "wells"), [("1x", 1475, 323), ("4x", 5900, 408)])
def test_the_real_site_lets_in_the_same_amount_on_both_meshes(hanford_folder, mesh, cells, wells):
    site = hanford(mesh, hanford_folder)
    assert (site.num_cells, len(site.wells)) == (cells, wells)
    assert site.values[site.kinds == INFLOW].sum() == pytest.approx(10_823.46, abs=0.01)
    heads = site.values[site.kinds == HELD]
    assert (heads.min(), heads.max()) == pytest.approx((103.645, 120.689), abs=1e-3)
    assert {number: sets.shape for number, sets in site.value_sets.items()} == {
        number: (10, number) for number in (25, 50, 100)
    }


def test_a_folder_of_ones_own_is_read(tmp_path):
    write_small(tmp_path)
    coarse, fine = (hanford(mesh, tmp_path) for mesh in ("1x", "4x"))
    assert fine.num_cells == 4 * coarse.num_cells
    np.testing.assert_array_equal(
        fine.parents[fine.known_cells(100, 3)], coarse.known_cells(100, 3)
    )


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(RieszError, match=r"hanford_1x\.npz is not there: put .* RIESZ_DATA"):
        hanford("1x", tmp_path)
    with pytest.raises(RieszError, match="no mesh '2x': there is 1x or 4x"):
        hanford("2x", tmp_path)
    (tmp_path / "hanford_1x.npz").write_text("no arrays")
    with pytest.raises(FileFormatError, match="cannot be read as arrays"):
        hanford("1x", tmp_path)


def test_sets_that_there_are_not_are_told():
    site = site_of("1x", small_site(), "here")
    with pytest.raises(RieszError, match="no sets of 7 values: there are those of 25, 50 or 100"):
        site.known_cells(7, 0)
    with pytest.raises(RieszError, match="no set 10: they go from 0 to 9"):
        site.known_cells(100, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("well_cells"), "no array 'well_cells'"),
        (lambda a: a.update(well_cells=a["well_cells"] + 500), "wells have numbers from 501"),
        (lambda a: a.update(log_T_rf1=a["log_T_rf1"][1:]), "log_T_rf1 has 119 of 120 cells"),
        (lambda a: a.update(parent_1x=a["parent_1x"][::-1]), "do not follow each other, 4 at"),
        (lambda a: a.update(boundary_face_tag=a["boundary_face_tag"] + 1), "kinds of faces"),
    ],
)
def test_arrays_that_do_not_fit_together_are_told(change, message):
    arrays = small_site(2)
    change(arrays)
    with pytest.raises(FileFormatError, match=message):
        site_of("4x", arrays, "here")
