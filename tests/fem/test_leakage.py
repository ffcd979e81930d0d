"""Exchange with a river that is spread over the cells it crosses, against a line of no width."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import FormError
from riesz.fem.elements.space import P1
from riesz.fem.fluxes import budget
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.weakform import diffusion, leakage, robin
from riesz.mesh.integrals import stretches_in_cells
from riesz.mesh.mesh import cell_volumes
from riesz.mesh.shapes import rectangle

PLACE, CONDUCTANCE, STAGE = 0.73, 4.0, 3.0


def gain(num_cells):
    """What a river across a strip brings in, where u is zero at both ends."""
    mesh = rectangle((2 * num_cells, num_cells // 2), (0.0, 0.0), (2.0, 0.5))
    found = stretches_in_cells(mesh, np.array([[PLACE, -1.0]]), np.array([[PLACE, 1.0]]))
    held = np.bincount(found.cell, found.length, minlength=mesh.num_cells)
    density = held / cell_volumes(mesh.nodes, mesh.cells)
    form = diffusion(1.0) + leakage("c", per_cell(density), STAGE)
    problem = boundary_value_problem(P1(mesh), form, {"left": 0.0, "right": 0.0})
    compiled = eqx.filter_jit(lambda z: budget(problem, solve(problem, z), z))
    amounts = compiled({"c": jnp.asarray(CONDUCTANCE)})
    assert abs(float(amounts.imbalance)) < 1e-10
    return float(amounts.gains["leakage"])


@pytest.mark.slow
def test_the_gain_from_a_river_converges_to_that_of_the_line():
    resistance = 1 / (1 / PLACE + 1 / (2.0 - PLACE))
    level = CONDUCTANCE * STAGE / (CONDUCTANCE + 1 / resistance)
    exact = CONDUCTANCE * (STAGE - level) * 0.5
    errors = np.array([abs(gain(n) - exact) for n in (8, 32)])
    assert errors[0] < 0.1 * exact
    assert errors[1] < 0.4 * errors[0], f"errors {errors}"


@pytest.mark.parametrize("exchange", [leakage(0.0, 1.0, 1.0), robin(0.0, 1.0, on="right")])
def test_a_conductance_must_be_positive(exchange):
    (term,) = exchange.terms
    with pytest.raises(FormError, match=f"conductance of {term.name} is 0 at 1 of 1 places"):
        boundary_value_problem(P1(rectangle((2, 2))), diffusion(1.0) + exchange, {"left": 0.0})
