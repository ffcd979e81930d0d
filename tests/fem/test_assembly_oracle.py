"""Assembly agrees with scikit-fem, term by term, on perturbed meshes in random order.

The coordinates and all coefficients are drawn; the topology of each mesh is fixed, so that each
space is compiled once.
"""

import dataclasses

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import skfem
from hypothesis import given, settings
from scipy.spatial import KDTree
from skfem.helpers import dot, grad

from riesz.fem.assembly import jacobian, residual
from riesz.fem.elements.space import P1, P2
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import nodal, per_cell
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
from riesz.mesh.mesh import Mesh, orient_cells
from riesz.mesh.shapes import box, interval, rectangle

TOLERANCE = 1e-12
EXACT_DEGREE = {1: 3, 2: 5}  # by the element's: a nodal coefficient times u times v


class Case:
    """A topology, an element, and the same in scikit-fem."""

    def __init__(self, mesh, degree, oracle_mesh, oracle_element, oracle_linear, oracle_constant):
        self.mesh, self.degree = shuffled(with_line(mesh)), degree
        self.oracle_mesh, self.oracle_element = oracle_mesh, oracle_element
        self.oracle_linear, self.oracle_constant = oracle_linear, oracle_constant
        self.spacing = mesh.num_cells ** (-1 / mesh.dim)
        self.template = self.problem_on(self.mesh.nodes)

    def problem_on(self, nodes):
        mesh = Mesh(nodes, self.mesh.cells, self.mesh.facets)
        space = (P1 if self.degree == 1 else P2)(mesh)
        wells = nodes[mesh.cells[:2]].mean(axis=1)
        return boundary_value_problem(
            space, form(wells), quadrature_degree=EXACT_DEGREE[self.degree]
        )


def form(wells):
    """Every term, with coefficients of every kind."""
    return (
        diffusion("scalar")
        + diffusion("tensor")
        + diffusion("nodal")
        + diffusion("per_cell")
        + diffusion(lambda_of_place)
        + advection("velocity")
        + advection("nodal_velocity")
        + reaction("rate")
        - source(strength_of_place)
        + neumann("outward_flux", on="left")
        + robin("conductance", "external_value", on="right")
        - line_source("line_strength", on="line")
        - point_source(wells, "well_rates")
    )


def lambda_of_place(x, z):
    return z["function"] * (1 + x[0])


def strength_of_place(x, z):
    return z["strength"] * (1 + x[0] * x[0])


def with_line(mesh):
    """Tag the interior facets at x = 1/2."""
    corners = np.sort(
        np.stack([np.delete(mesh.cells, k, axis=1) for k in range(mesh.dim + 1)], axis=1), axis=2
    ).reshape(-1, mesh.dim)
    on_line = np.isclose(mesh.nodes[corners][:, :, 0], 0.5).all(axis=1)
    line = np.unique(corners[on_line], axis=0)
    return Mesh(mesh.nodes, mesh.cells, {**mesh.facets, "line": line})


def shuffled(mesh):
    """The same mesh with nodes and cells in random order."""
    rng = np.random.default_rng(0)
    order = rng.permutation(mesh.num_nodes)
    new_index = np.argsort(order)
    nodes = mesh.nodes[order]
    cells = orient_cells(nodes, new_index[rng.permutation(mesh.cells)])
    return Mesh(nodes, cells, {tag: new_index[facets] for tag, facets in mesh.facets.items()})


CASES = {
    "interval-P1": lambda: Case(
        interval(6),
        1,
        skfem.MeshLine,
        skfem.ElementLineP1(),
        skfem.ElementLineP1(),
        skfem.ElementLineP0(),
    ),
    "interval-P2": lambda: Case(
        interval(6),
        2,
        skfem.MeshLine,
        skfem.ElementLineP2(),
        skfem.ElementLineP1(),
        skfem.ElementLineP0(),
    ),
    "triangles-P1": lambda: Case(
        rectangle((4, 3), diagonal="alternating"),
        1,
        skfem.MeshTri,
        skfem.ElementTriP1(),
        skfem.ElementTriP1(),
        skfem.ElementTriP0(),
    ),
    "triangles-P2": lambda: Case(
        rectangle((4, 3), diagonal="alternating"),
        2,
        skfem.MeshTri,
        skfem.ElementTriP2(),
        skfem.ElementTriP1(),
        skfem.ElementTriP0(),
    ),
    "tetrahedra-P1": lambda: Case(
        box((2, 1, 2)),
        1,
        skfem.MeshTet,
        skfem.ElementTetP1(),
        skfem.ElementTetP1(),
        skfem.ElementTetP0(),
    ),
}


@pytest.fixture(
    scope="module",
    params=[
        name if name.startswith("triangles") else pytest.param(name, marks=pytest.mark.slow)
        for name in CASES
    ],
)
def case(request):
    return CASES[request.param]()


def coefficients(mesh, values):
    """Latents for every term, cut from one list of numbers."""
    stream = iter(values)
    dim = mesh.dim

    def some(*shape):
        return jnp.asarray(np.array([next(stream) for _ in range(int(np.prod(shape)))])).reshape(
            shape
        )

    return {
        "scalar": some(),
        "tensor": some(dim, dim),
        "nodal": nodal(some(mesh.num_nodes)),
        "per_cell": per_cell(some(mesh.num_cells)),
        "function": some(),
        "velocity": some(dim),
        "nodal_velocity": nodal(some(mesh.num_nodes, dim)),
        "rate": nodal(some(mesh.num_nodes)),
        "strength": some(),
        "outward_flux": nodal(some(mesh.num_nodes)),
        "conductance": nodal(some(mesh.num_nodes)),
        "external_value": nodal(some(mesh.num_nodes)),
        "line_strength": nodal(some(mesh.num_nodes)),
        "well_rates": some(2),
    }


def only(z, *names):
    """The same latents with all others set to zero."""
    return {k: v if k in names else jax.tree.map(jnp.zeros_like, v) for k, v in z.items()}


class Oracle:
    """The matrices and loads of scikit-fem, renumbered to the unknowns of our space."""

    def __init__(self, case, problem, z):
        self.space, self.mesh, self.z = problem.space, problem.space.mesh, z
        self.order = 2 * EXACT_DEGREE[case.degree]
        self.case = case
        self.oracle = case.oracle_mesh(
            np.ascontiguousarray(self.mesh.nodes.T), np.ascontiguousarray(self.mesh.cells.T)
        )
        self.cells = skfem.Basis(self.oracle, case.oracle_element, intorder=self.order)
        distance, place = KDTree(self.space.points).query(self.cells.doflocs.T)
        assert distance.max() < 1e-12
        self.to_ours = sp.coo_array((np.ones(len(place)), (place, np.arange(len(place)))))

    def facets(self, tag):
        ours = {tuple(row) for row in np.sort(self.mesh.facets[tag], axis=1).tolist()}
        theirs = np.sort(self.oracle.facets.T, axis=1).tolist()
        chosen = [i for i, row in enumerate(theirs) if tuple(row) in ours]
        assert len(chosen) == len(ours)
        return skfem.FacetBasis(
            self.oracle, self.case.oracle_element, facets=np.array(chosen), intorder=self.order
        )

    def field(self, name, basis=None):
        """A nodal or cell coefficient of ours as a field of theirs."""
        basis = self.cells if basis is None else basis
        values = np.asarray(self.z[name].values)
        kind = self.case.oracle_constant if "cell" in name else self.case.oracle_linear
        columns = values.reshape(len(values), -1).T
        target = basis.with_element(kind)
        fields = [np.asarray(target.interpolate(column)) for column in columns]
        return fields[0] if values.ndim == 1 else np.stack(fields)

    def matrix(self, integrand, basis=None, **fields):
        basis = self.cells if basis is None else basis
        theirs = skfem.BilinearForm(integrand).assemble(basis, **fields)
        return (self.to_ours @ theirs @ self.to_ours.T).toarray()

    def load(self, integrand, basis=None, **fields):
        basis = self.cells if basis is None else basis
        return self.to_ours @ skfem.LinearForm(integrand).assemble(basis, **fields)

    def terms(self):
        """Name -> (latents it uses, matrix or None, load or None)."""
        z = {k: np.asarray(v) for k, v in self.z.items() if isinstance(v, jax.Array)}
        left, right, line = (self.facets(tag) for tag in ("left", "right", "line"))
        laplacian = self.matrix(lambda u, v, w: dot(grad(u), grad(v)))
        yield "scalar", z["scalar"] * laplacian, None
        yield (
            "tensor",
            self.matrix(lambda u, v, w: np.einsum("ij,j...,i...", z["tensor"], grad(u), grad(v))),
            None,
        )
        for name in ("nodal", "per_cell"):
            yield (
                name,
                self.matrix(lambda u, v, w: w.a * dot(grad(u), grad(v)), a=self.field(name)),
                None,
            )
        yield (
            "function",
            self.matrix(lambda u, v, w: z["function"] * (1 + w.x[0]) * dot(grad(u), grad(v))),
            None,
        )
        yield (
            "velocity",
            self.matrix(lambda u, v, w: np.einsum("i,i...", z["velocity"], grad(u)) * v),
            None,
        )
        yield (
            "nodal_velocity",
            self.matrix(lambda u, v, w: dot(w.t, grad(u)) * v, t=self.field("nodal_velocity")),
            None,
        )
        yield "rate", self.matrix(lambda u, v, w: w.k * u * v, k=self.field("rate")), None
        yield "strength", None, -self.load(lambda v, w: z["strength"] * (1 + w.x[0] ** 2) * v)
        yield (
            "outward_flux",
            None,
            self.load(lambda v, w: w.q * v, left, q=self.field("outward_flux", left)),
        )
        conductance = self.field("conductance", right)
        level = self.field("external_value", right)
        yield (
            "robin",
            self.matrix(lambda u, v, w: w.c * u * v, right, c=conductance),
            -self.load(lambda v, w: w.c * w.u0 * v, right, c=conductance, u0=level),
        )
        yield (
            "line_strength",
            None,
            -self.load(lambda v, w: w.s * v, line, s=self.field("line_strength", line)),
        )
        wells = self.mesh.nodes[self.mesh.cells[:2]].mean(axis=1)
        yield "well_rates", None, -self.to_ours @ (self.cells.probes(wells.T).T @ z["well_rates"])


def assert_close(found, expected, scale, what):
    error = np.abs(np.asarray(found) - expected).max() / scale
    assert error <= TOLERANCE, f"{what}: off by {error:.1e}, relative"


@settings(max_examples=3, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32 - 1), stretch=st.floats(0.1, 10.0))
def test_every_term_equals_scikit_fem(case, seed, stretch):
    rng = np.random.default_rng(seed)
    moves = case.spacing * rng.uniform(-0.1, 0.1, case.mesh.nodes.shape)
    on_mesh = case.problem_on(stretch * (case.mesh.nodes + moves))
    # The topology is the template's; with its space the compiled code is found again.
    problem = dataclasses.replace(on_mesh, space=case.template.space)
    z = coefficients(on_mesh.space.mesh, rng.normal(size=1000))
    state = jnp.asarray(rng.normal(size=problem.space.num_dofs))
    whole, largest = np.zeros(problem.space.num_dofs), 0.0
    for name, matrix, load in Oracle(case, on_mesh, z).terms():
        alone = only(z, *(("conductance", "external_value") if name == "robin" else (name,)))
        expected, scale = np.zeros(problem.space.num_dofs), 0.0
        if matrix is not None:
            found = jacobian(problem, state, alone).to_dense()
            assert_close(found, matrix, np.abs(matrix).max(), f"matrix of {name}")
            expected = expected + matrix @ np.asarray(state)
            scale += np.abs(matrix).max()
        if load is not None:
            expected = expected + load
            scale += np.abs(load).max()
        assert_close(residual(problem, state, alone), expected, scale, f"residual of {name}")
        whole, largest = whole + expected, largest + scale
    assert_close(residual(problem, state, z), whole, largest, "residual of the whole form")
