"""Draws that are kept are small, come back as they were, and are as good as they are needed."""

import equinox as eqx
import numpy as np
import pytest
from tests.prediction.made_up_draws import FACTS, made_up_draws

from riesz.errors import FileFormatError
from riesz.io.store.draws import StoredDraws, read_draws, shuffle, unshuffle, write_draws
from riesz.mesh.location import locate
from riesz.prediction.draws import BITS, NumberDraws, RegionDraws, exactly, quantise


def test_draws_are_kept_to_a_small_part_of_their_spread_wherever_they_lie():
    rng = np.random.default_rng(1)
    scales = np.array([1e-9, 1.0, 1e12])
    values = 5e3 * scales + scales * rng.normal(size=(200, 3))
    spread = np.subtract(*np.quantile(values, (0.84, 0.16), axis=0)) / 2
    assert (np.abs(quantise(values).values() - values) <= 2.0**-BITS * spread).all()


def test_one_draw_far_out_does_not_cost_the_others_their_digits():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(200, 1))
    values[7] = 1e6
    errors = np.abs(quantise(values).values() - values)
    assert np.delete(errors, 7).max() < 2.0**-BITS
    assert errors[7] < 0.1


def test_what_does_not_vary_and_what_is_counted_are_exact():
    values = np.full((5, 2), 0.1)
    np.testing.assert_array_equal(quantise(values).values(), values)
    shares = np.random.default_rng(0).integers(0, 7, (50, 3)) / 7
    np.testing.assert_array_equal(exactly(shares).values(), shares)


@pytest.mark.parametrize(
    "array", [np.arange(5), np.ones((2, 3), np.float32), np.zeros((0, 2)), np.array([True, False])]
)
def test_bytes_by_significance_are_the_same_array(array):
    again = unshuffle(shuffle(array), array.dtype.str, list(array.shape))
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype


def test_a_file_of_draws_comes_back_as_it_was(tmp_path):
    draws = made_up_draws()
    write_draws(tmp_path / "draws.npz", StoredDraws(draws, FACTS))
    again, facts, _ = read_draws(tmp_path / "draws.npz")
    assert eqx.tree_equal(again, draws)
    assert eqx.tree_equal(facts, FACTS)


def test_two_thousand_nodes_and_four_hundred_draws_take_less_than_ten_megabytes(tmp_path):
    draws = made_up_draws(num_draws=400, side=45, num_sensors=150)
    assert draws.mesh.num_nodes > 2000
    write_draws(tmp_path / "draws.npz", StoredDraws(draws, FACTS))
    assert (tmp_path / "draws.npz").stat().st_size < 10e6


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", None])
def test_a_file_that_holds_no_draws_is_told(content, tmp_path):
    path = tmp_path / "draws.npz"
    if content is None:
        np.savez(path, header=np.frombuffer(b'{"schema": 1, "arrays": {}}', np.uint8))
    else:
        path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"draws\.npz"):
        read_draws(path)


def test_draws_of_a_newer_version_are_told(tmp_path):
    np.savez(tmp_path / "draws.npz", header=np.frombuffer(b'{"schema": 99}', np.uint8))
    with pytest.raises(FileFormatError, match="newer version of riesz"):
        read_draws(tmp_path / "draws.npz")


def test_between_nodes_the_state_is_linear_and_so_is_the_logarithm_of_a_positive_field():
    draws = made_up_draws()
    mesh = draws.mesh
    corners = mesh.nodes[mesh.cells[3]]
    where = locate(mesh, np.array([0.2, 0.3, 0.5])[None] @ corners)
    for values, found in (
        (draws.state.at(mesh, None), draws.state.at(mesh, where)),
        (np.log(draws.unknowns["a"].at(mesh, None)), np.log(draws.unknowns["a"].at(mesh, where))),
    ):
        wanted = values[:, mesh.cells[3]] @ [0.2, 0.3, 0.5]
        np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-12)


def test_numbers_are_the_same_everywhere_and_regions_within_themselves():
    mesh = made_up_draws().mesh
    region = (mesh.nodes[mesh.cells].mean(axis=1)[:, 0] > 0.5).astype(int)
    draws = RegionDraws(np.array([[1.0, 5.0], [2.0, 6.0]]), region, ("west", "east"))
    where = locate(mesh, [[0.1, 0.5], [0.9, 0.5]])
    np.testing.assert_array_equal(draws.at(mesh, where), [[1, 5], [2, 6]])
    at_nodes = draws.at(mesh, None)
    assert ((at_nodes[0] >= 1) & (at_nodes[0] <= 5)).all()
    vector = NumberDraws(np.array([[1.0, 2.0]]), (2,))
    np.testing.assert_array_equal(vector.at(mesh, where), [[[1, 2], [1, 2]]])


def test_fewer_draws_are_spread_over_all_and_more_are_not_there():
    draws = made_up_draws(num_draws=50)
    assert draws.serve(50, 0)
    assert draws.serve(None, 0)
    assert not draws.serve(51, 0)
    assert not draws.serve(10, seed=1)
    few = draws.first(5)
    every = draws.state.at(draws.mesh, None)
    np.testing.assert_array_equal(few.state.at(draws.mesh, None), every[[0, 12, 24, 37, 49]])
    assert few.observed.drawn.measured.shape == (5, 3)
