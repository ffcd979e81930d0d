"""Shape functions and element matrices against exact polynomial arithmetic."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import factorial, prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem.assembly import jacobian
from riesz.fem.elements.space import P1, P2, Lagrange
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.weakform import advection, diffusion, reaction
from riesz.mesh.mesh import Mesh

ELEMENTS = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)]  # dimension, degree
IDS = [f"P{degree}-{dim}d" for dim, degree in ELEMENTS]
VELOCITY = (3, -2, 5)

Polynomial = Counter  # powers of the reference coordinates -> coefficient


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    total = Counter()
    for a, x in p.items():
        for b, y in q.items():
            total[tuple(i + j for i, j in zip(a, b, strict=True))] += x * y
    return total


def combined(*terms: tuple[int, Polynomial]) -> Polynomial:
    total = Counter()
    for factor, polynomial in terms:
        for powers, coefficient in polynomial.items():
            total[powers] += factor * coefficient
    return total


def derivative(p: Polynomial, axis: int) -> Polynomial:
    total = Counter()
    for powers, coefficient in p.items():
        if powers[axis]:
            lowered = tuple(k - (d == axis) for d, k in enumerate(powers))
            total[lowered] += powers[axis] * coefficient
    return total


def reference_integral(p: Polynomial) -> Fraction:
    r"""Over the reference simplex, $\int \xi^k = \prod k_i!\,/\,(d + |k|)!$."""
    return sum(
        (
            Fraction(c * prod(map(factorial, powers)), factorial(len(powers) + sum(powers)))
            for powers, c in p.items()
        ),
        start=Fraction(0),
    )


def shape_polynomials(dim: int, degree: int) -> list[Polynomial]:
    """Corners first, then mid-edges in lexicographic order."""
    one = Counter({(0,) * dim: 1})
    xi = [Counter({tuple(int(d == axis) for d in range(dim)): 1}) for axis in range(dim)]
    barycentric = [combined((1, one), *((-1, x) for x in xi)), *xi]
    if degree == 1:
        return barycentric
    corners = [combined((2, times(s, s)), (-1, s)) for s in barycentric]
    edges = [combined((4, times(a, b))) for a, b in combinations(barycentric, 2)]
    return corners + edges


def exact_matrices(dim: int, degree: int) -> dict[str, np.ndarray]:
    shapes = shape_polynomials(dim, degree)
    slopes = [[derivative(s, axis) for axis in range(dim)] for s in shapes]
    along = [combined(*zip(VELOCITY, slope, strict=False)) for slope in slopes]

    def matrix(entry):
        rows = range(len(shapes))
        return np.array([[float(reference_integral(entry(i, j))) for j in rows] for i in rows])

    def stiffness(i, j):
        return combined(*((1, times(a, b)) for a, b in zip(slopes[i], slopes[j], strict=True)))

    return {
        "stiffness": matrix(stiffness),
        "mass": matrix(lambda i, j: times(shapes[i], shapes[j])),
        "advection": matrix(lambda i, j: times(shapes[i], along[j])),
    }


def nodes_of(element: Lagrange) -> np.ndarray:
    """Barycentric coordinates of the points where the unknowns are values."""
    corners = np.eye(element.dim + 1)
    middles = [(corners[a] + corners[b]) / 2 for a, b in element.edges()]
    return np.array([*corners, *middles])


@pytest.mark.parametrize(("dim", "degree"), ELEMENTS, ids=IDS)
def test_shape_functions_are_one_at_their_own_node_and_zero_at_others(dim, degree):
    element = Lagrange(dim, degree)
    values = np.array([element.values(list(point)) for point in nodes_of(element)])
    np.testing.assert_array_equal(values, np.eye(element.num_local))


@pytest.mark.parametrize(("dim", "degree"), ELEMENTS, ids=IDS)
def test_shape_functions_sum_to_one_and_their_gradients_to_zero(dim, degree):
    element = Lagrange(dim, degree)
    for point in np.random.default_rng(0).dirichlet(np.ones(dim + 1), size=5):
        assert sum(element.values(list(point))) == pytest.approx(1, abs=1e-14)
        np.testing.assert_allclose(np.sum(element.gradients(list(point)), axis=0), 0, atol=1e-14)


@pytest.mark.parametrize(("dim", "degree"), ELEMENTS, ids=IDS)
def test_gradients_are_those_of_automatic_differentiation(dim, degree):
    element = Lagrange(dim, degree)

    def values(xi):
        return jnp.stack(element.values([1 - jnp.sum(xi), *xi]))

    point = np.random.default_rng(1).dirichlet(np.ones(dim + 1))
    expected = jax.jit(jax.jacobian(values))(point[1:])
    np.testing.assert_allclose(element.gradients(list(point)), expected, atol=1e-14)


@pytest.mark.parametrize(("dim", "degree"), ELEMENTS, ids=IDS)
def test_element_matrices_are_the_exact_rationals(dim, degree):
    mesh = Mesh(np.vstack([np.zeros(dim), np.eye(dim)]), np.arange(dim + 1)[None])
    space = (P1 if degree == 1 else P2)(mesh)
    form = diffusion("diffusivity") + advection("velocity") + reaction("rate")
    problem = boundary_value_problem(space, form)
    velocity = np.array(VELOCITY[:dim], dtype=float)
    switches = {
        "stiffness": {"diffusivity": 1.0, "velocity": 0 * velocity, "rate": 0.0},
        "mass": {"diffusivity": 0.0, "velocity": 0 * velocity, "rate": 1.0},
        "advection": {"diffusivity": 0.0, "velocity": velocity, "rate": 0.0},
    }
    (local,) = space.cell_dofs
    for name, exact in exact_matrices(dim, degree).items():
        z = {key: jnp.asarray(value) for key, value in switches[name].items()}
        found = jacobian(problem, jnp.zeros(space.num_dofs), z).to_dense()
        np.testing.assert_allclose(found[np.ix_(local, local)], exact, atol=2e-15, err_msg=name)
