"""Diffusion along tagged facets: a fracture or a drain that conducts beside the cells."""

import numpy as np
import pytest

from riesz.errors import FormError
from riesz.fem.elements.space import P1
from riesz.fem.fluxes import budget
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import diffusion
from riesz.mesh.shapes import interval, rectangle
from riesz.mesh.tags import tag_line

DIFFUSIVITY, ALONG = 2.0, 5.0


def strip(ends):
    """A strip of length 2 and width 1, with a fracture along a line between two points."""
    mesh = tag_line(rectangle((8, 4), (0.0, 0.0), (2.0, 1.0)), "fracture", ends, 1e-6)
    form = diffusion(DIFFUSIVITY) + diffusion(ALONG, on="fracture")
    return boundary_value_problem(P1(mesh), form, {"left": 0.0, "right": 1.0})


def test_a_fracture_from_end_to_end_carries_its_share():
    problem = strip([[0.0, 0.5], [2.0, 0.5]])
    state = solve(problem)
    np.testing.assert_allclose(state, problem.space.points[:, 0] / 2, atol=1e-12)
    found = budget(problem, state)
    through = (DIFFUSIVITY * 1.0 + ALONG) / 2
    np.testing.assert_allclose(float(found.outflows["prescribed on left"]), through, rtol=1e-12)
    np.testing.assert_allclose(float(found.imbalance), 0, atol=1e-12)
    assert not found.gains  # what moves neither gains nor loses


@pytest.mark.slow
def test_a_fracture_across_the_flow_changes_nothing():
    problem = strip([[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(solve(problem), problem.space.points[:, 0] / 2, atol=1e-12)


def test_the_equation_stays_linear_and_symmetric():
    assert (diffusion(1.0) + diffusion(1.0, on="fracture")).is_symmetric


def test_points_have_no_direction_along_them():
    form = diffusion(1.0) + diffusion(1.0, on="left")
    problem = boundary_value_problem(P1(interval(3)), form, {"right": 0.0})
    with pytest.raises(FormError, match="a point has no direction along it"):
        solve(problem)
