"""Functions of the unknowns: as many products as the normal equations have room for."""

import dataclasses

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz.density.surrogate.least_squares import LARGEST, fitting_features, fitting_split, splits
from riesz.errors import RieszError
from riesz.surrogate.networks import trunk_branch


def split(num_linear: int, num_others: int, num_bends: int = 16):
    return splits(np.arange(num_linear), num_linear + np.arange(num_others), num_bends)


def test_few_unknowns_have_all_products():
    found = fitting_split(split(3, 2, 4), 8)
    assert (len(found.linear), len(found.others)) == (3, 2)
    assert found.num_crossed == 1 + 2 + 4
    assert found.num_hidden == (1 + 3) * (1 + 2 + 4)


def test_more_unknowns_keep_the_products_with_linear_functions():
    found = fitting_split(split(12, 8), 40)
    assert found.num_crossed == 1 + 8
    assert found.num_hidden == (1 + 12) * (1 + 8) + 16


def test_products_of_many_unknowns_are_given_up_for_linear_functions_of_all():
    found = fitting_split(split(50, 40), 8)
    assert len(found.linear) == 0
    np.testing.assert_array_equal(found.others, np.arange(90))


def test_functions_of_place_make_room_for_products():
    assert fitting_features(split(0, 2), 64) == 64
    assert fitting_features(split(12, 8), 64) == LARGEST // 133


@pytest.mark.parametrize("num_unknowns", [20, 64, 233])
def test_normal_equations_are_never_larger_than_they_may_be(num_unknowns):
    for candidates in (split(0, num_unknowns), split(num_unknowns, 0)):
        count = fitting_features(candidates, 64)
        assert count * fitting_split(candidates, count).num_hidden <= LARGEST


@pytest.mark.parametrize("num_unknowns", [390, 1089, 4225])
def test_more_unknowns_than_functions_can_carry_are_refused(num_unknowns):
    with pytest.raises(RieszError, match=r"cannot carry so many unknowns.*Use the density exact"):
        fitting_features(split(0, num_unknowns), 64)


@pytest.mark.parametrize("num_crossed", [1, 3, 7])
def test_the_network_has_as_many_hidden_functions_as_the_split_says(num_crossed):
    network = trunk_branch(
        2, 5, jr.key(0), linear=np.arange(3), width=6, features=4, dtype=np.dtype(float)
    )
    network = dataclasses.replace(network, num_crossed=num_crossed)
    hidden = network.hidden(jnp.arange(5.0))
    assert hidden.shape == (3 * num_crossed + 7,)
    np.testing.assert_allclose(hidden[num_crossed], 0.0)  # the first affine coordinate times one
