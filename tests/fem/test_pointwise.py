"""The algebra of linear forms: exactly one factor of the test function."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import FormError
from riesz.fem.assembly import residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.pointwise import LinearForm, TestFunction, dot
from riesz.fem.terms.weakform import diffusion, integral, reaction, robin
from riesz.mesh.shapes import interval, rectangle

V = TestFunction(2)


def applied(form: LinearForm, value=2.0, grad=(3.0, 5.0)) -> float:
    """The linear form at a test function with these values."""
    flux = form.flux or (None, None)
    slopes = sum(f * g for f, g in zip(flux, grad, strict=True) if f is not None)
    return (form.density or 0.0) * value + slopes


def test_linear_forms_are_a_vector_space():
    a, b = 1.5 * V.value, np.array([2.0, -1.0]) @ V.grad
    assert applied(a) == 3.0
    assert applied(b) == 1.0
    assert applied(a + b) == 4.0
    assert applied(a - b) == 2.0
    assert applied(-b) == -1.0
    assert applied((a + b) * 4.0) == applied(4.0 * (a + b)) == 16.0
    assert applied((a + b) / 2.0) == 2.0


def test_components_of_the_gradient_can_be_taken_one_by_one():
    assert applied(V.grad[0]) == 3.0
    assert applied(V.grad[1] - 2.0 * V.grad[0]) == -1.0
    assert applied(V.grad[-1]) == 5.0


def test_numpy_and_jax_numbers_multiply_from_either_side():
    for factor in (np.float64(2.0), jnp.asarray(2.0), 2):
        assert float(applied(factor * V.value)) == 4.0
        assert float(applied(V.value * factor)) == 4.0
    assert float(applied(jnp.asarray([1.0, 1.0]) @ V.grad)) == 8.0
    assert float(applied(V.grad @ jnp.asarray([1.0, 1.0]))) == 8.0


def test_the_test_function_cannot_be_used_twice():
    with pytest.raises(FormError, match=r"linear in the test function v, not v times v"):
        V.value * V.value


def test_a_vector_of_wrong_length_is_refused():
    with pytest.raises(FormError, match=r"vector with 3 components .* which has 2"):
        np.ones(3) @ V.grad


def test_a_constant_cannot_be_added():
    with pytest.raises(FormError, match=r"without the test function \(float\)"):
        V.value + 1.0
    with pytest.raises(FormError, match=r"without the test function \(float\)"):
        1.0 + V.value


def test_powers_and_products_of_the_test_function_are_refused():
    with pytest.raises(FormError, match=r"not a power of it"):
        V.value**2
    with pytest.raises(FormError, match=r"contract it with a vector"):
        np.ones(2) * V.grad


def test_the_builtin_sum_and_dot_build_linear_forms():
    slopes = (2.0, 3.0)
    assert sum(s * V.grad[d] for d, s in enumerate(slopes)).flux == slopes
    by_dot = dot(slopes, V.grad)
    assert by_dot.flux == slopes


SPACE = P1(rectangle((2, 2)))


def evaluated(form, space=SPACE, state=None):
    state = jnp.zeros(space.num_dofs) if state is None else state
    return residual(boundary_value_problem(space, form), state)


@pytest.mark.parametrize(
    "integrand",
    [lambda u, v: u.value, lambda u, v: u.value * u.value + 1.0],
    ids=["state only", "no v at all"],
)
def test_an_integrand_without_test_function_is_refused(integrand):
    with pytest.raises(FormError, match=r"multiplied by the test function, .* exactly once"):
        evaluated(integral(integrand))


def test_an_integrand_with_the_test_function_squared_is_refused():
    with pytest.raises(FormError, match=r"not v times v"):
        evaluated(integral(lambda u, v: v.value * v.value))


def test_an_unknown_coefficient_of_an_integrand_is_refused():
    with pytest.raises(FormError, match=r"'rat' is not an argument of the integrand"):
        integral(lambda u, v, rate: rate * u.value * v.value, rat=1.0)


def by_hand(u, v, *, stiffness, rate):
    return stiffness * (u.grad[0] * v.grad[0] + u.grad[1] * v.grad[1]) + rate * u.value * v.value


def test_an_integrand_by_hand_equals_the_built_in_terms():
    state = jnp.asarray(np.random.default_rng(0).normal(size=SPACE.num_dofs))
    found = evaluated(integral(by_hand, stiffness=2.0, rate=3.0), state=state)
    expected = evaluated(diffusion(2.0) + reaction(3.0), state=state)
    np.testing.assert_allclose(found, expected, atol=1e-14)


def exchange(u, v, x, normal):
    return (1 + x[0]) * (u.value - 4.0) * v.value * (normal[0] * normal[0])


def test_integrands_on_facets_receive_place_and_normal():
    space = P1(interval(3))
    state = jnp.asarray([1.0, 2.0, 0.5, -1.0])
    found = evaluated(diffusion(1.0) + integral(exchange, on="right"), space, state)
    expected = evaluated(diffusion(1.0) + robin(2.0, 4.0, on="right"), space, state)
    np.testing.assert_allclose(found, expected, atol=1e-14)
