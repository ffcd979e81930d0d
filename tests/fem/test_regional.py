"""Coefficients by region, and those that are scaled by known tensors."""

import jax.numpy as jnp
import numpy as np
import pytest

import riesz as rz
from riesz.errors import FormError, MeshError
from riesz.mesh.tags import tag_region

WEST = [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
MESH = tag_region(rz.rectangle((4, 2)), "west", WEST)
ODD = tag_region(MESH, "rest", WEST)
IS_WEST = np.isin(np.arange(MESH.num_cells), MESH.regions["west"])
TENSOR = np.array([[2.0, 0.5], [0.5, 1.0]])


def residual_of(form, state, z=None):
    return np.asarray(rz.fem.residual(rz.boundary_value_problem(rz.P1(MESH), form), state, z))


def test_a_coefficient_by_region_is_that_of_its_cells():
    """Numbers, latents and functions, scaled or not, on cells and on their facets."""
    state = jnp.asarray(np.random.default_rng(0).normal(size=MESH.num_nodes))
    mixed = rz.by_region(MESH, {"west": "k"}, rest=3.0)
    of_place = rz.by_region(MESH, {"west": lambda x: 1.0 + x[0]}, rest="k")
    form = rz.diffusion(rz.fem.scale(mixed, TENSOR)) + rz.reaction(of_place) + rz.neumann(mixed)
    found = residual_of(form, state, {"k": jnp.asarray(5.0)})
    values = np.where(IS_WEST, 5.0, 3.0)

    def rate(u, v, *, x, west):
        return (west * (1.0 + x[0]) + (1 - west) * 5.0) * u.value * v.value

    plain = (
        rz.diffusion(rz.per_cell(values[:, None, None] * TENSOR))
        + rz.integral(rate, degree=4, west=rz.per_cell(IS_WEST))
        + rz.neumann(rz.per_cell(values))
    )
    np.testing.assert_allclose(found, residual_of(plain, state), atol=1e-12)


def test_what_is_known_stays_an_array_of_cells():
    known = rz.by_region(MESH, {"west": TENSOR}, rest=np.eye(2))
    np.testing.assert_array_equal(known.values[~IS_WEST][0], np.eye(2))
    doubled = rz.fem.scale(2.0, known)
    np.testing.assert_array_equal(doubled.values, 2 * known.values)
    np.testing.assert_array_equal(rz.fem.scale(3.0, TENSOR).value, 3 * TENSOR)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: rz.by_region(MESH, {"wset": 1.0}, rest=1.0), "did you mean 'west'"),
        (lambda: rz.by_region(MESH, {"west": 1.0}), "cells are in none of the regions 'west'"),
        (
            lambda: rz.by_region(MESH, {"west": [1.0, 2.0]}, rest="k"),
            r"the shapes \(\), \(2,\)",
        ),
        (
            lambda: rz.by_region(tag_region(MESH, "rest", WEST), {"rest": 1.0}, rest=1.0),
            "rename it",
        ),
        (
            lambda: rz.fem.scale([1.0, 2.0], TENSOR),
            r"of shape \(2,\) is to be scaled: give a number",
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises((FormError, MeshError), match=message):
        wrong()


@pytest.mark.parametrize(
    ("coefficient", "z", "message"),
    [
        (rz.by_region(MESH, {"west": -1.0}, rest="k"), 1.0, "diffusion is -1 at 8 of 16 places"),
        (rz.by_region(MESH, {"west": 1.0}, rest="k"), -2.0, "diffusion is -2 at 1 of 1 places"),
        (
            rz.by_region(MESH, {"west": 1.0}, rest="k"),
            np.ones(2),
            r"has shape \(2,\) at each point",
        ),
        (rz.fem.scale("k", [1.0, 2.0]), 1.0, r"has shape \(2,\) at each point"),
        (
            rz.fem.scale("k", rz.per_cell(np.ones(3))),
            1.0,
            "has 3 values, but the mesh has 16 cells",
        ),
    ],
)
def test_sizes_and_signs_are_checked_part_by_part(coefficient, z, message):
    form = rz.diffusion(coefficient)
    with pytest.raises(FormError, match=message):
        rz.solve(rz.boundary_value_problem(rz.P1(MESH), form, {"left": 0.0}), {"k": jnp.asarray(z)})
