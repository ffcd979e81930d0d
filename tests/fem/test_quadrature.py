"""Quadrature rules against the exact integrals of all monomials they promise."""

from itertools import product
from math import factorial, prod

import numpy as np
import pytest

from riesz.errors import FormError
from riesz.fem.elements.domain import quadrature

DIMENSIONS, DEGREES = (1, 2, 3), range(9)


def monomial_mean(powers: tuple[int, ...]) -> float:
    r"""$\int_T \lambda^k / |T| = d!\,\prod k_i!\,/\,(d + |k|)!$, barycentric $\lambda$."""
    dim = len(powers) - 1
    return factorial(dim) * prod(map(factorial, powers)) / factorial(dim + sum(powers))


@pytest.mark.parametrize("dim", DIMENSIONS)
@pytest.mark.parametrize("degree", DEGREES)
def test_rule_is_exact_for_every_monomial_up_to_its_degree(dim, degree):
    rule = quadrature(dim, degree)
    for powers in product(range(degree + 1), repeat=dim + 1):
        if sum(powers) > degree:
            continue
        approximate = rule.weights @ np.prod(rule.points ** np.array(powers), axis=1)
        assert approximate == pytest.approx(monomial_mean(powers), rel=1e-13), powers


@pytest.mark.parametrize("dim", DIMENSIONS)
@pytest.mark.parametrize("degree", DEGREES)
def test_weights_are_positive_and_points_lie_inside(dim, degree):
    rule = quadrature(dim, degree)
    assert (rule.weights > 0).all()
    assert rule.weights.sum() == pytest.approx(1, rel=1e-14)
    assert (rule.points > 0).all()
    np.testing.assert_allclose(rule.points.sum(axis=1), 1, rtol=1e-14)


def test_a_point_is_its_own_rule():
    rule = quadrature(0, 5)
    assert rule.points.tolist() == [[1.0]]
    assert rule.weights.tolist() == [1.0]


def test_negative_degree_is_refused():
    with pytest.raises(FormError, match=r"quadrature degree is -1: it must be zero or more"):
        quadrature(2, -1)
