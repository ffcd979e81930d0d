"""Point evaluation is exact for the polynomials of the space, and its transpose is a load."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import MeshError
from riesz.fem.elements.space import P1, P2, point_operator
from riesz.mesh.shapes import box, disc, interval

SPACES = {
    "P1-1d": P1(interval(7)),
    "P2-1d": P2(interval(7)),
    "P1-2d": P1(disc(4)),
    "P2-2d": P2(disc(4)),
    "P1-3d": P1(box((2, 3, 2))),
}


@pytest.fixture(params=list(SPACES))
def space(request):
    return SPACES[request.param]


def inner_points(space, count=20):
    """Random points inside random cells."""
    rng = np.random.default_rng(0)
    cells = rng.integers(space.mesh.num_cells, size=count)
    barycentric = rng.dirichlet(np.ones(space.mesh.dim + 1), size=count)
    return np.einsum("pk,pkd->pd", barycentric, space.mesh.nodes[space.mesh.cells[cells]])


def polynomial(points, degree):
    x, last = points[:, 0], points[:, -1]
    return 1 + 2 * x - last + (x * last + x**2 if degree == 2 else 0)


def test_polynomials_of_the_space_are_evaluated_exactly(space):
    points, degree = inner_points(space), space.element.degree
    state = jnp.asarray(polynomial(space.points, degree))
    found = point_operator(space, points) @ state
    np.testing.assert_allclose(found, polynomial(points, degree), atol=1e-13)


def test_values_at_the_unknowns_are_the_unknowns(space):
    state = jnp.asarray(np.random.default_rng(1).normal(size=space.num_dofs))
    found = point_operator(space, space.points) @ state
    np.testing.assert_allclose(found, state, atol=1e-12)


def test_the_transpose_is_the_adjoint(space):
    rng = np.random.default_rng(2)
    operator = point_operator(space, inner_points(space))
    state, rates = (jnp.asarray(rng.normal(size=n)) for n in (space.num_dofs, 20))
    one, other = rates @ (operator @ state), operator.transpose_product(rates) @ state
    assert float(one) == pytest.approx(float(other), rel=1e-12)


def test_the_sparse_matrix_is_the_same_operator_with_rows_of_sum_one(space):
    operator = point_operator(space, inner_points(space))
    state = np.random.default_rng(3).normal(size=space.num_dofs)
    matrix = operator.to_scipy()
    np.testing.assert_allclose(matrix @ state, operator @ jnp.asarray(state), atol=1e-13)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-13)


def test_a_point_outside_is_refused_unless_it_is_within_the_tolerance():
    space = SPACES["P1-2d"]
    outside = np.array([[0.0, 0.0], [1.5, 0.0]])
    with pytest.raises(MeshError, match=r"1 of 2 points"):
        point_operator(space, outside)
    operator = point_operator(space, outside, tolerance=0.6)
    np.testing.assert_allclose(operator.to_scipy().sum(axis=1), 1)
