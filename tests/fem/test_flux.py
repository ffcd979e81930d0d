"""Fluxes and budgets: directions, exact values, and sums that close to rounding."""

from functools import lru_cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import FormError, MeshError
from riesz.fem.elements.space import P1, P2
from riesz.fem.fluxes import ACROSS, budget, flux_through
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import (
    advection,
    diffusion,
    line_source,
    neumann,
    point_source,
    reaction,
    robin,
    source,
)
from riesz.mesh.mesh import Mesh
from riesz.mesh.shapes import rectangle

DIFFUSIVITY = 2.0
ROUNDING = 1e-13
REGIONS = (None, "west", "east")


def halves(num_cells):
    """The unit square in two regions with the line between them tagged."""
    square = rectangle((num_cells, num_cells))
    west = square.nodes[square.cells].mean(axis=1)[:, 0] < 0.5
    (middle,) = np.nonzero(np.isclose(square.nodes[:, 0], 0.5))
    middle = middle[np.argsort(square.nodes[middle, 1])]
    return Mesh(
        square.nodes,
        square.cells,
        {**square.facets, "middle": np.stack([middle[:-1], middle[1:]], axis=1)},
        {"west": np.flatnonzero(west), "east": np.flatnonzero(~west)},
    )


def exact(points):
    x, y = points.T
    return x**2 * (1 + y) + y


# The outward flux of `exact` through the right side, and eastwards through the middle.
THROUGH_RIGHT = -DIFFUSIVITY * 2 * 1.5
THROUGH_MIDDLE = -DIFFUSIVITY * 1.5


@lru_cache
def plain(degree, num_cells):
    space = (P1 if degree == 1 else P2)(halves(num_cells))
    return boundary_value_problem(space, diffusion(DIFFUSIVITY), {"left": 0.0, "right": 1.0})


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, id="P1"), pytest.param(2, id="P2", marks=pytest.mark.slow)],
)
def budgets(request):
    """Of a problem with every kind of gain and loss, by region."""
    form = (
        diffusion(lambda x: 1 + x[0] * x[1])
        + advection(jnp.asarray([2.0, 1.0]), supg=request.param == 1)
        + reaction(0.5)
        - source(lambda x: 1 + x[1])
        - line_source(3.0, on="middle")
        + robin(2.0, 0.3, on="top")
        + neumann(0.7, on="bottom")
        - point_source([[0.3, 0.6], [0.8, 0.2]], [2.0, -1.0])
    )
    space = (P1 if request.param == 1 else P2)(halves(4))
    problem = boundary_value_problem(space, form, {"left": 0.0, "right": lambda x: x[1]})
    state = solve(problem)

    @eqx.filter_jit
    def of_regions(state):
        return [budget(problem, state, region=region) for region in REGIONS]

    return dict(zip(REGIONS, of_regions(state), strict=True))


@pytest.mark.parametrize("region", REGIONS)
def test_budgets_close_to_rounding(budgets, region):
    amounts = budgets[region]
    sizes = [abs(float(v)) for v in [*amounts.gains.values(), *amounts.outflows.values()]]
    assert abs(float(amounts.imbalance)) <= ROUNDING * max(sizes)
    assert (ACROSS in amounts.outflows) == (region is not None)
    assert "imbalance" in str(amounts)


def test_known_gains_have_their_exact_size(budgets):
    gains = budgets[None].gains
    assert float(gains["source"]) == pytest.approx(1.5)
    assert float(gains["line_source on middle"]) == pytest.approx(3.0)
    assert float(gains["neumann on bottom"]) == pytest.approx(-0.7)
    assert float(gains["point_source"]) == pytest.approx(1.0)
    assert "diffusion" not in gains


def test_budgets_of_regions_add_up_to_that_of_the_domain(budgets):
    whole, west, east = (budgets[region] for region in (None, "west", "east"))
    for name, gain in whole.gains.items():
        assert float(west.gains[name] + east.gains[name]) == pytest.approx(float(gain))
    assert float(west.outflows[ACROSS]) == pytest.approx(-float(east.outflows[ACROSS]))


@pytest.mark.slow
@pytest.mark.parametrize("degree", [1, 2])
def test_outflow_is_positive_where_u_falls_outwards(degree):
    """u = x: what enters on the right passes the middle westwards and leaves on the left."""
    problem = plain(degree, 4)
    state = solve(problem)
    np.testing.assert_allclose(state, problem.space.points[:, 0], atol=1e-14)
    outflows = budget(problem, state).outflows
    assert float(outflows["prescribed on left"]) == pytest.approx(DIFFUSIVITY)
    assert float(outflows["prescribed on right"]) == pytest.approx(-DIFFUSIVITY)
    west = budget(problem, state, region="west").outflows
    assert float(west[ACROSS]) == pytest.approx(-DIFFUSIVITY)
    assert float(flux_through(problem, state, on="left")) == pytest.approx(DIFFUSIVITY)
    assert float(flux_through(problem, state, on="right")) == pytest.approx(-DIFFUSIVITY)
    assert float(flux_through(problem, state, on="top")) == pytest.approx(0, abs=1e-14)
    for region, sign in (("west", -1), ("east", 1)):
        flux = flux_through(problem, state, on="middle", out_of=region)
        assert float(flux) == pytest.approx(sign * DIFFUSIVITY)


def flux_errors(degree, num_cells):
    problem = plain(degree, num_cells)
    state = jnp.asarray(exact(problem.space.points))
    right = flux_through(problem, state, on="right")
    middle = flux_through(problem, state, on="middle", out_of="west")
    return abs(float(right) - THROUGH_RIGHT), abs(float(middle) - THROUGH_MIDDLE)


def test_p1_fluxes_converge_at_first_order():
    orders = np.log2(np.divide(flux_errors(1, 8), flux_errors(1, 16)))
    np.testing.assert_allclose(orders, 1, atol=0.1)


def test_p2_fluxes_converge_at_second_order():
    orders = np.log2(np.divide(flux_errors(2, 4), flux_errors(2, 8)))
    np.testing.assert_allclose(orders, 2, atol=0.1)


def test_an_equation_without_diffusion_has_no_flux():
    problem = boundary_value_problem(P1(halves(2)), reaction(1.0))
    assert float(flux_through(problem, jnp.ones(9), on="left")) == 0.0


def test_a_line_inside_needs_a_side():
    problem = plain(1, 4)
    state = jnp.zeros(problem.space.num_dofs)
    with pytest.raises(FormError, match=r"two directions: name the region it leaves, out_of"):
        flux_through(problem, state, on="middle")
    with pytest.raises(MeshError, match=r"'wets': did you mean 'west'"):
        flux_through(problem, state, on="middle", out_of="wets")
    with pytest.raises(MeshError, match=r"no region 'wets'"):
        budget(problem, state, region="wets")
    with pytest.raises(MeshError, match=r"not facets of any cell of the region"):
        flux_through(problem, state, on="right", out_of="west")
