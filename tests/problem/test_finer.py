"""The same problem on finer elements: unknowns are the same functions, of whatever kind."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.fem.assembly import residual
from riesz.fem.evaluate import evaluation_points
from riesz.mesh.bisection import bisect
from riesz.mesh.refinement import refine
from riesz.prediction.quantity import UnknownAt
from riesz.problem.finer import on_parts, on_quadratic_elements, on_refined_mesh, with_half_steps

POINTS = np.array([[0.31, 0.42], [0.77, 0.64], [0.52, 0.18]])


def posed(mesh, equation, latents, dirichlet=None, points=POINTS, **how):
    values = np.zeros(len(points))
    return rz.inverse_problem(
        mesh,
        equation,
        latents=latents,
        dirichlet={"left": 0.0} if dirichlet is None else dirichlet,
        observations=how.pop("observations", None) or rz.observations(points, values),
        likelihood=rz.Gaussian(0.1),
        **how,
    )


def square():
    mesh = rz.rectangle((5, 4))
    cells = np.arange(mesh.num_cells)
    tagged = rz.mesh.tag_region(mesh, "south", lambda x: x[:, 1] < 0.5)
    return tagged, np.linspace(1.0, 2.0, mesh.num_nodes), np.cos(cells)


FIELDS = {
    "of nodes": lambda: rz.SPDEField(mean=2.0, sd=0.1, length_scale=0.4),
    "of principal functions": lambda: rz.KarhunenLoeve(
        rz.priors.Matern52(sd=0.2, length_scale=0.5), num_terms=4, mean=2.0
    ),
    "of the place": lambda: rz.GP(rz.priors.Matern52(sd=0.2, length_scale=0.5), mean=2.0),
    "of regions": lambda: rz.Regions(dist.Normal(2.0, 0.1), rest=dist.Normal(3.0, 0.1)),
}
"""None of them transformed, so that integrals over cells and over their parts are the same."""


@pytest.mark.parametrize("name", FIELDS)
def test_coefficients_on_a_refined_mesh_are_the_same_functions(name):
    """P' r(P u) on the finer mesh is r(u), where quadrature is exact."""
    mesh, nodal, cells = square()
    equation = (
        rz.diffusion("a")
        + rz.reaction(rz.per_cell(cells))
        - rz.source(rz.nodal(nodal))
        + rz.robin(rz.nodal(nodal), 1.5, on="right")
    )
    problem = posed(mesh, equation, {"a": FIELDS[name]()}, {"left": rz.nodal(nodal)})
    finer = on_refined_mesh(problem)
    prolongation = refine(mesh).prolongation
    rng = np.random.default_rng(0)
    z = problem.z(jnp.asarray(rng.normal(size=problem.num_coordinates)))
    state = rng.normal(size=mesh.num_nodes)
    exact = 1e-3 if name == "of the place" else 1e-12  # a smooth kernel under a rule of degree 2
    own = residual(problem.forward, jnp.asarray(state), z)
    fine = residual(finer.forward, jnp.asarray(prolongation @ state), z)
    np.testing.assert_allclose(prolongation.T @ np.asarray(fine), own, atol=exact)
    assert finer.forward.num_free > 3 * problem.forward.num_free


@pytest.mark.parametrize("name", [*FIELDS, "of nodes, positive"])
def test_coordinates_mean_the_same_functions_where_some_cells_are_cut(name):
    """Also where cuts follow cuts, and in what is shown at the nodes."""
    mesh, _, cells = square()
    positive = rz.SPDEField(mean=0.7, sd=0.3, length_scale=0.4, transform=jnp.exp)
    equation = rz.diffusion("a") + rz.reaction(rz.per_cell(cells)) - rz.source(1.0)
    problem = posed(mesh, equation, {"a": FIELDS.get(name, lambda: positive)()})
    finer, parent = mesh, np.arange(mesh.num_cells)
    for _ in range(3):
        finer, part_of = bisect(finer, np.arange(0, finer.num_cells, 7))
        parent = parent[part_of]
    result = on_parts(problem, finer, parent)
    at = jnp.asarray(np.random.default_rng(0).normal(size=problem.num_coordinates))
    middles = finer.nodes[finer.cells].mean(axis=1)
    own, fine = (
        UnknownAt("a", evaluation_points(one.forward, middles))(one, jnp.zeros(size), one.z(at))
        for one, size in ((problem, mesh.num_nodes), (result, finer.num_nodes))
    )
    np.testing.assert_allclose(fine, own, rtol=1e-12)
    shown, before = (UnknownAt("a")(one, at, one.z(at)) for one in (result, problem))
    assert shown.shape == (finer.num_nodes,)
    if name != "of regions":  # between regions it is a mean over the cells around
        np.testing.assert_allclose(shown[: mesh.num_nodes], before, rtol=1e-12)


def test_prescribed_values_of_a_refined_mesh_lie_on_the_line_between():
    mesh, nodal, _ = square()
    problem = posed(
        mesh, rz.diffusion("a"), {"a": dist.Normal(2.0, 0.1)}, {"left": rz.nodal(nodal)}
    )
    finer = on_refined_mesh(problem)
    left = finer.forward.space.mesh.nodes[:, 0] == 0
    wanted = (refine(mesh).prolongation @ nodal)[left]
    state = finer.state(jnp.zeros(1))
    np.testing.assert_allclose(np.asarray(state)[left], wanted, rtol=1e-12)


@pytest.mark.parametrize("finer", [on_quadratic_elements, on_refined_mesh])
def test_each_experiment_keeps_its_own_data(finer):
    one, two = (
        rz.Experiment(
            rz.diffusion("a") - rz.source(strength),
            rz.observations(points, np.arange(float(len(points)))),
            rz.Gaussian(0.1),
            {"boundary": 0.0},
        )
        for strength, points in ((1.0, POINTS), (2.0, POINTS[:2]))
    )
    latents = {"a": dist.LogNormal(0.0, 0.2)}
    problem = rz.inverse_problem(rz.rectangle((4, 4)), latents=latents, experiments=[one, two])
    result = finer(problem)
    seen = result.predict(result.state(jnp.zeros(1)), result.z(jnp.zeros(1)))
    np.testing.assert_allclose(seen[3:], 2 * seen[:2], rtol=1e-9)
    np.testing.assert_array_equal(result.observed, problem.observed)


def test_half_steps_end_where_steps_did():
    data = rz.observations(POINTS, np.zeros(3), times=[0.2, 0.45, 1.0])
    equation = rz.diffusion("a") + rz.storage(1.0) - rz.source(1.0)
    timed = {"times": np.linspace(0, 1, 5), "initial": 0.0, "observations": data}
    problem = posed(rz.rectangle((4, 4)), equation, {"a": dist.LogNormal(0.0, 0.2)}, **timed)
    halved = with_half_steps(problem)
    np.testing.assert_allclose(halved.in_time.axis.times, np.linspace(0, 1, 9))
    difference = halved.predict(halved.state(jnp.zeros(1)), halved.z(jnp.zeros(1)))
    difference -= problem.predict(problem.state(jnp.zeros(1)), problem.z(jnp.zeros(1)))
    assert 1e-6 < np.abs(difference).max() < 1e-2


@pytest.mark.parametrize("finer", [on_quadratic_elements, on_refined_mesh])
def test_newton_begins_where_it_did(finer):
    """-div(u grad u) = 1 is singular at zero."""
    mesh = rz.rectangle((4, 4))
    equation = rz.diffusion(lambda x, z, u, grad: z["k"] * u) - rz.source(1.0)
    latents, start = {"k": dist.LogNormal(0.0, 0.1)}, np.linspace(2.0, 3.0, mesh.num_nodes)
    problem = posed(mesh, equation, latents, {"left": 2.0}, initial=start)
    result = finer(problem)
    np.testing.assert_array_equal(result.forward.start[: mesh.num_nodes], start)
    middle = result.forward.space.points[mesh.num_nodes :]
    assert result.forward.start.shape == (mesh.num_nodes + len(middle),)
    assert np.isfinite(result.state(jnp.zeros(1))).all()
