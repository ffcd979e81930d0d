"""Manufactured solutions: errors fall at the orders that theory promises.

One form with switches in `z` stands for all equations, so that each mesh is compiled once.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem.elements.domain import quadrature
from riesz.fem.elements.space import P1, P2
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import advection, diffusion, neumann, reaction, robin, source
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.shapes import box, interval, rectangle

CONDUCTANCE = 2.0

APART = 2.0  # between the origins of the coarse and the fine mesh

SIZES = {(1, 2): 8, (2, 1): 16, (2, 2): 8, (3, 1): 5}  # by dimension and degree; then doubled


def exact(x):
    """The manufactured solution, in any dimension; a polynomial, for these soon compile."""
    x = in_unit_cube(x)
    s = 0.8 * x[0] + sum(0.4 * c for c in x[1:]) - 0.2
    return 1 + s - s * s * s * s + x[0] * x[0] * x[-1] / 2


def in_unit_cube(x):
    """The coordinates on the mesh's own unit cube."""
    return [jnp.where(x[0] > (1 + APART) / 2, x[0] - APART, x[0]), *x[1:]]


def diffusivity(x, z, u, grad_u):
    x = in_unit_cube(x)
    variation = 1 + z["vary"] * x[0] * (1 + x[-1]) + z["nonlinear"] * u * u
    return variation * z["tensor"]


def exact_flux(x, z):
    """The exact tensor times the exact gradient."""
    slope = jax.grad(exact)(x)
    return diffusivity(x, z, exact(x), slope) @ slope


def strength(x, z):
    """The source that makes `exact` the solution."""
    divergence = jnp.trace(jax.jacfwd(exact_flux)(x, z))
    return -divergence + z["velocity"] @ jax.grad(exact)(x) + z["rate"] * exact(x)


def outward_flux(x, z):
    return -exact_flux(x, z)[0]  # on the right side, whose normal is the first unit vector


def external_value(x, z):
    return exact(x) + exact_flux(x, z)[-1] / CONDUCTANCE  # on the top, or the right end


def unit_mesh(dim, num_cells):
    if dim == 1:
        return interval(num_cells)
    if dim == 2:
        return rectangle((num_cells, num_cells), diagonal="alternating")
    return box((num_cells,) * 3)


def side_by_side(coarse, fine):
    """Two meshes as one, which is compiled and solved once."""
    shift = APART * np.eye(coarse.dim)[0]
    return Mesh(
        np.concatenate([coarse.nodes, fine.nodes + shift]),
        np.concatenate([coarse.cells, fine.cells + coarse.num_nodes]),
        {
            tag: np.concatenate([facets, fine.facets[tag] + coarse.num_nodes])
            for tag, facets in coarse.facets.items()
        },
    )


def manufactured_problem(dim, degree):
    """Dirichlet, Neumann and Robin conditions, each on a part of the boundary."""
    size = SIZES[dim, degree]
    mesh = side_by_side(unit_mesh(dim, size), unit_mesh(dim, 2 * size))
    form = diffusion(diffusivity) + advection("velocity") + reaction("rate") - source(strength)
    if dim < 3:
        form = form + robin(CONDUCTANCE, external_value, on="right" if dim == 1 else "top")
    if dim > 1:
        form = form + neumann(outward_flux, on="right")
    prescribed = {
        1: ("left",),
        2: ("left", "bottom"),
        3: ("left", "bottom", "front", "back", "top"),
    }
    space = (P1 if degree == 1 else P2)(mesh)
    # Enough for the orders; few points, or so many that they become a loop, are soon compiled.
    rule = {1: 2, 2: 5}[degree]
    return boundary_value_problem(
        space, form, dict.fromkeys(prescribed[dim], exact), quadrature_degree=rule
    )


def switches(dim, **chosen):
    plain = {
        "tensor": np.eye(dim),
        "vary": 0.0,
        "nonlinear": 0.0,
        "velocity": np.zeros(dim),
        "rate": 0.0,
    }
    return {name: jnp.asarray(value) for name, value in {**plain, **chosen}.items()}


def errors(space, state, cells):
    """L2 norms of the error and of its gradient over some cells, by a rule of high order."""
    rule, element = quadrature(space.mesh.dim, 5), space.element
    corners = space.mesh.nodes[space.mesh.cells[cells]]
    to_place = np.linalg.inv(corners[:, 1:] - corners[:, :1])
    local = np.asarray(state)[space.cell_dofs[cells]]
    squares, volumes = np.zeros(2), cell_volumes(space.mesh.nodes, space.mesh.cells[cells])
    for point, weight in zip(rule.points, rule.weights, strict=True):
        x = np.einsum("k,ckd->cd", point, corners)
        value = local @ np.array(element.values(list(point)))
        by_reference = local @ np.array(element.gradients(list(point)))
        slope = np.einsum("cde,ce->cd", to_place, by_reference)
        value_error, slope_error = value - exact_values(x), slope - exact_slopes(x)
        squares[0] += weight * volumes @ value_error**2
        squares[1] += weight * volumes @ np.sum(slope_error**2, axis=1)
    return np.sqrt(squares)


def exact_values(x):
    return np.asarray(COMPILED[0](x))


def exact_slopes(x):
    return np.asarray(COMPILED[1](x))


COMPILED = jax.jit(jax.vmap(exact)), jax.jit(jax.vmap(jax.grad(exact)))


def observed_orders(problem, z):
    space, state = problem.space, solve(problem, z)
    middle = (1 + APART) / 2
    is_fine = space.mesh.nodes[space.mesh.cells][:, 0, 0] > middle
    coarse, fine = (errors(space, state, np.flatnonzero(part)) for part in (~is_fine, is_fine))
    return np.log2(coarse / fine)


@pytest.fixture(scope="module")
def problem_of():
    """Problems by dimension and degree, built when first asked for."""
    return lru_cache(manufactured_problem)


PLANAR_CASES = {
    "diffusion": {},
    "variable diffusion": {"vary": 1.0},
    "tensor diffusion": {"tensor": [[2.0, 0.6], [0.6, 1.0]]},
    "advection-diffusion": {"velocity": [3.0, -2.0]},
    "reaction": {"rate": 5.0},
    "nonlinear diffusion": {"nonlinear": 1.0},
}


# Quadratic elements are held to another library term by term, quickly, in test_assembly_oracle.
@pytest.mark.parametrize("degree", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(PLANAR_CASES))
def test_planar_errors_fall_at_the_optimal_orders(problem_of, degree, name):
    orders = observed_orders(problem_of(2, degree), switches(2, **PLANAR_CASES[name]))
    np.testing.assert_allclose(orders, [degree + 1, degree], atol=0.1)


@pytest.mark.slow
def test_p2_errors_on_an_interval_fall_at_third_and_second_order(problem_of):
    z = switches(1, vary=1.0, velocity=[2.0], rate=3.0, nonlinear=0.5)
    np.testing.assert_allclose(observed_orders(problem_of(1, 2), z), [3, 2], atol=0.1)


@pytest.mark.slow
def test_p1_errors_on_tetrahedra_fall_at_second_and_first_order(problem_of):
    z = switches(3, vary=1.0, velocity=[1.0, -1.0, 0.5], rate=2.0)
    np.testing.assert_allclose(observed_orders(problem_of(3, 1), z), [2, 1], atol=0.1)
