"""Equations that are singular where Newton's iteration starts, held to their closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import riesz as rz
from riesz.errors import FormError, SolveError
from riesz.problem.problem import InverseProblem

LINE = rz.interval(40)
X = LINE.nodes[:, 0]


def unconfined(u, v, *, k):
    return k * u.value * u.grad @ v.grad


def power_law(u, v, *, exponent):
    return (1e-12 + rz.fem.dot(u.grad, u.grad)) ** (exponent / 2 - 1) * u.grad @ v.grad


FLOW = rz.integral(unconfined, k=2.0) - rz.source(5.0)


def bound(form, dirichlet=None, **settings):
    return rz.boundary_value_problem(rz.P1(LINE), form, dirichlet, **settings)


def between_rivers(left, right):
    """The water table of -(2 u u')' = 5: its square is a parabola."""
    return np.sqrt(left**2 + (right**2 - left**2) * X + 2.5 * X * (1 - X))


def test_an_unconfined_aquifer_starts_from_the_levels_of_its_rivers():
    state = rz.solve(bound(FLOW, {"left": 10.0, "right": 8.0}))
    np.testing.assert_allclose(state, between_rivers(10.0, 8.0), rtol=1e-4)


def test_where_no_value_is_prescribed_it_starts_from_the_level_of_balance():
    """Rivers with a resistance: half of what seeps in leaves at each end, 0.5 above the river."""
    ends = rz.robin(5.0, 9.0, on="left") + rz.robin(5.0, 9.0, on="right")
    state = rz.solve(bound(FLOW + ends))
    np.testing.assert_allclose(state, between_rivers(9.5, 9.5), rtol=1e-4)


@pytest.mark.parametrize("exponent", [3.0, 10.0])
def test_the_p_laplacian_is_solved_by_pseudo_time(exponent):
    r"""$u' = \pm|1/2 - x|^{1/(p-1)}$, where Newton's matrix is zero at u = 0."""
    form = rz.integral(power_law, exponent=exponent) - rz.source(1.0)
    state = rz.solve(bound(form, {"left": 0.0, "right": 0.0}))
    power = 1 / (exponent - 1) + 1
    exact = (0.5**power - abs(0.5 - X) ** power) / power
    np.testing.assert_allclose(state, exact, atol=2e-3)


def conductivity(head, xp=jnp):
    """Of van Genuchten and Mualem with n = 2: that of a head of -10 is a millionth of the first."""
    saturation = 1 / xp.sqrt(1 + (2 * head) ** 2)
    return xp.sqrt(saturation) * (1 - xp.sqrt(1 - saturation**2)) ** 2


def height(head, flux):
    """Above the water table, where as much rises to the surface."""
    return quad(lambda h: 1 / (1 + flux / conductivity(h, np)), head, 0.0, limit=500)[0]


@pytest.mark.parametrize("surface", [-3.0, -10.0])
def test_water_rises_from_a_water_table_to_a_dry_surface(surface):
    r"""$K(u)(u' + 1)$ is constant, which Newton reaches neither at once nor in pseudo-time.

    Ever drier cells are a trap: there residuals vanish, and it is no solution.
    """

    def unsaturated(u, v):
        return conductivity(jnp.minimum(u.value, -1e-9)) * (u.grad + 1.0) @ v.grad

    mesh = rz.interval(100)
    ends = {"left": 0.0, "right": surface}
    state = rz.solve(rz.boundary_value_problem(rz.P1(mesh), rz.integral(unsaturated), ends))
    flux = brentq(lambda q: height(surface, q) - 1, 1e-6, 1.0)
    heights = [height(head, flux) for head in state]
    np.testing.assert_allclose(heights, mesh.nodes[:, 0], atol=0.01)


def test_the_gradient_goes_through_whichever_start_was_taken():
    problem = bound(rz.integral(unconfined, k="k") - rz.source(5.0), {"left": 10.0, "right": 8.0})

    def middle(k):
        return rz.solve(problem, {"k": k})[20]

    # By the square of the water table, 82 + 5 / (4 k).
    np.testing.assert_allclose(jax.grad(middle)(2.0), -5 / 16 / 2 / middle(2.0), rtol=1e-3)


def test_a_problem_may_have_its_own_start_and_settings():
    problem = bound(
        FLOW, {"left": 10.0, "right": 8.0}, initial=9.0, newton=rz.fem.Newton(max_steps=8)
    )
    assert problem.newton.max_steps == 8
    np.testing.assert_allclose(rz.solve(problem), between_rivers(10.0, 8.0), rtol=1e-4)
    with pytest.raises(FormError, match=r"initial has shape \(3,\), but the space has 41 unknowns"):
        bound(FLOW, {"left": 10.0}, initial=np.zeros(3))


def test_an_inverse_problem_starts_where_others_do_and_where_it_is_told():
    def posed(**settings) -> InverseProblem:
        return rz.inverse_problem(
            LINE,
            rz.integral(unconfined, k="k") - rz.source(5.0),
            latents={"k": dist.LogNormal(np.log(2.0), 0.5)},
            observations=rz.observations([[0.5]], [9.1]),
            likelihood=rz.Gaussian(0.05),
            dirichlet={"left": 10.0, "right": 8.0},
            **settings,
        )

    origin, solver = jnp.zeros(1), rz.solvers.SparseLU()
    for problem in (posed(), posed(initial=9.0, newton=rz.fem.Newton(max_steps=9))):
        state = problem.solve(origin, solver)
        np.testing.assert_allclose(state, between_rivers(10.0, 8.0), rtol=1e-4)


def test_a_reaction_of_third_order_is_solved_all_over_the_prior():
    """From zero the first step goes far beyond; away from the ends the source is used up."""

    def cubic(u, v, *, rate):
        return rate * u.value * u.value * u.value * v.value

    problem = rz.inverse_problem(
        LINE,
        rz.diffusion(1.0) + rz.integral(cubic, rate="k") - rz.source("f"),
        latents={"k": dist.LogNormal(0.0, 1.0), "f": dist.LogNormal(np.log(1e9), 1.0)},
        observations=rz.observations([[0.5]], [1000.0]),
        likelihood=rz.Gaussian(1.0),
        dirichlet={"left": 0.0, "right": 0.0},
    )
    draws = jax.random.normal(jax.random.key(0), (20, 2))
    solve = jax.jit(lambda place: problem.solve(place, rz.solvers.SparseLU())[20])
    middle = [solve(place) for place in (jnp.zeros(2), *draws)]
    exact = [1000.0, *np.exp((np.log(1e9) + draws[:, 1] - draws[:, 0]) / 3)]
    np.testing.assert_allclose(middle, exact, rtol=1e-3)


def test_a_failure_says_what_was_tried():
    """Of -u'' = 99 e^u there is no solution."""

    def bratu(u, v):
        return -99 * jnp.exp(u.value) * v.value

    problem = bound(rz.diffusion(1.0) + rz.integral(bratu), {"left": 1.0, "right": 1.0})
    with pytest.raises(SolveError, match=r"neither from zero nor.*mean of the prescribed.*pseudo"):
        rz.solve(problem)
