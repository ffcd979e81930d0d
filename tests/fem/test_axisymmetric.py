"""About an axis, integrals are over the body that a section sweeps: closed forms, orders, sums."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import FormError, RieszError
from riesz.fem.assembly import residual
from riesz.fem.elements.space import P1, P2
from riesz.fem.fluxes import budget, flux_through
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import diffusion, neumann, point_source, reaction, source
from riesz.mesh.shapes import box, geometric_ticks, interval, rectangle
from riesz.penalty.schwarz import schwarz_norm

WELL_RADIUS, REACH = 0.5, 8.0
TRANSMISSIVITY, RATE = 3.0, 40.0


def observed_order(errors):
    return -np.diff(np.log2(errors))


@pytest.mark.parametrize("element", [P1, P2])
def test_a_section_sweeps_a_ring_and_its_sides_sweep_circles_and_planes(element):
    r = geometric_ticks(WELL_RADIUS, REACH, 3)
    ring = np.pi * (REACH**2 - WELL_RADIUS**2)
    line = element(interval(r), axisymmetric=True)
    # Both integrals at once: of one over the cells, and of one over the well's wall, 2 pi r.
    form = source(1.0) + neumann(10.0, on="left")
    found = residual(boundary_value_problem(line, form), jnp.zeros(line.num_dofs))
    wall = 2 * np.pi * WELL_RADIUS
    np.testing.assert_allclose(float(found.sum()), ring + 10 * wall, rtol=1e-13)
    section = element(rectangle((r, [0.0, 1.0, 3.0])), axisymmetric=True)
    form = source(1.0) + neumann(10.0, on="left") + neumann(100.0, on="top")
    found = residual(boundary_value_problem(section, form), jnp.zeros(section.num_dofs))
    expected = 3 * ring + 10 * 3 * wall + 100 * ring
    np.testing.assert_allclose(float(found.sum()), expected, rtol=1e-13)


def thiem(num_cells, element=P1):
    """Steady flow to a well of finite radius from an island's shore, and its error there."""
    space = element(interval(num_cells, WELL_RADIUS, REACH), axisymmetric=True)
    form = diffusion(TRANSMISSIVITY) - point_source([[WELL_RADIUS]], [-RATE])
    problem = boundary_value_problem(space, form, {"right": 0.0})
    state = solve(problem)
    exact = RATE / (2 * np.pi * TRANSMISSIVITY) * np.log(space.points[:, 0] / REACH)
    return problem, state, float(np.abs(state - exact).max())


@pytest.mark.slow  # quickly, in problem/test_about_an_axis
def test_thiems_cone_of_depression_converges_at_second_order():
    errors = [thiem(n)[2] for n in (32, 64, 128)]
    np.testing.assert_allclose(observed_order(errors), 2, atol=0.1)


def test_what_a_well_takes_comes_in_through_the_shore():
    problem, state, _ = thiem(32)
    found = budget(problem, state)
    np.testing.assert_allclose(float(found.outflows["prescribed on right"]), -RATE, rtol=1e-10)
    np.testing.assert_allclose(float(found.imbalance), 0, atol=1e-10 * RATE)
    # The flux beside the facets is of first order: half a cell inwards the circle is smaller.
    by_slope = float(flux_through(problem, state, on="right"))
    np.testing.assert_allclose(by_slope, -RATE, rtol=(REACH - WELL_RADIUS) / 32 / REACH)


def along_radius(r):
    """Even in r, so that it is smooth about the axis."""
    return 1 + r * r - r * r * r * r / 4


def along_axis(z):
    return 1 + z - z * z * z


def exact(x):
    return along_radius(x[0]) * along_axis(x[1])


def strength(x):
    """What makes `exact` the solution: its Laplacian is A'' B + A' B / r + A B''."""
    laplacian = (4 - 4 * x[0] * x[0]) * along_axis(x[1]) - 6 * x[1] * along_radius(x[0])
    return exact(x) - 2 * laplacian


@lru_cache
def manufactured(num_cells, element):
    """A cylinder and its axis: the problem, the solution, and its error over the volume.

    Not the largest error: on the axis, where no volume is, that has a logarithm in its order.
    """
    mesh = rectangle((num_cells, num_cells), diagonal="alternating")
    space = element(mesh, axisymmetric=True)
    top = neumann(lambda x: 4 * along_radius(x[0]), on="top")  # B' is -2 there
    form = diffusion(2.0) + reaction(1.0) - source(strength) + top
    problem = boundary_value_problem(space, form, {"right": exact, "bottom": exact})
    state, radius = solve(problem), space.points[:, 0]
    error = state - jax.vmap(exact)(jnp.asarray(space.points))
    return problem, state, float(np.sqrt(np.average(error**2, weights=radius)))


@pytest.mark.parametrize(
    ("element", "order"), [(P1, 2), pytest.param(P2, 3, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_a_manufactured_solution_about_the_axis_has_the_order_of_its_elements(element, order):
    errors = [manufactured(n, element)[2] for n in (8, 16)]
    assert observed_order(errors)[0] > order - 0.15, f"errors {errors}"


@pytest.mark.slow
def test_the_budget_of_a_cylinder_closes():
    problem, state, _ = manufactured(8, P1)
    found = budget(problem, state)
    size = max(abs(float(gain)) for gain in found.gains.values())
    np.testing.assert_allclose(float(found.imbalance), 0, atol=1e-10 * size)


def test_sections_have_no_negative_radius_and_no_third_dimension():
    with pytest.raises(FormError, match="3 of 7 nodes have a negative radius, the least -1"):
        P1(interval(6, -1.0, 1.0), axisymmetric=True)
    with pytest.raises(FormError, match="this one has three dimensions"):
        P1(box((1, 1, 1)), axisymmetric=True)


def test_mini_patches_refuse_an_axis():
    space = P1(rectangle((4, 4)), axisymmetric=True)
    problem = boundary_value_problem(space, diffusion(1.0), {"right": 0.0})
    with pytest.raises(RieszError, match="mini-patches know no axis"):
        schwarz_norm(problem, None, patch_nodes=9)
