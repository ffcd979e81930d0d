"""Sparse Gaussian processes against dense formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values, residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import Function
from riesz.fem.terms.weakform import diffusion
from riesz.mesh.shapes import interval, rectangle
from riesz.priors.gaussian_process import GP, LogGP
from riesz.priors.kernels import RBF, Matern32, Matern52
from riesz.priors.representatives import farthest_points, spread_nodes

MESH = rectangle((6, 6))


def nodal_map(latent):
    """The matrix from coordinates to the nodal values of a field with zero mean."""
    return jax.vmap(lambda c: latent.field.nodal(latent.value(c)), out_axes=1)(
        jnp.eye(latent.num_coordinates)
    )


def test_the_projected_process_has_the_covariance_of_the_formula():
    kernel, inducing = Matern52(0.4, 1.3), np.random.default_rng(0).uniform(size=(9, 2))
    factor = nodal_map(GP(kernel, inducing).on(MESH))
    across = kernel.matrix(MESH.nodes, inducing)
    expected = across @ np.linalg.solve(kernel.matrix(inducing, inducing), across.T)
    np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-4)


def test_with_all_nodes_inducing_the_covariance_is_the_kernel():
    kernel = Matern32(0.3, 2.0)
    factor = nodal_map(GP(kernel, inducing=MESH.num_nodes).on(MESH))
    np.testing.assert_allclose(factor @ factor.T, kernel.matrix(MESH.nodes, MESH.nodes), atol=1e-5)


def test_the_posterior_mean_in_coordinates_is_that_of_a_dense_gaussian_process():
    kernel, noise = Matern52(0.5), 0.1
    factor = np.asarray(nodal_map(GP(kernel, inducing=MESH.num_nodes).on(MESH)))
    seen = np.array([3, 17, 30, 41])
    values = np.array([1.0, -0.5, 0.3, 2.0])
    rows = factor[seen]
    precision = np.eye(factor.shape[1]) + rows.T @ rows / noise**2
    mean = factor @ np.linalg.solve(precision, rows.T @ values / noise**2)
    dense = kernel.matrix(MESH.nodes, MESH.nodes)
    gram = dense[np.ix_(seen, seen)] + noise**2 * np.eye(4)
    np.testing.assert_allclose(mean, dense[:, seen] @ np.linalg.solve(gram, values), atol=1e-4)


def test_the_kernel_is_that_of_gpjax():
    gpjax = pytest.importorskip("gpjax")
    reference = gpjax.kernels.Matern52(lengthscale=0.6, variance=1.0)
    gram = reference.cross_covariance(jnp.asarray(MESH.nodes), jnp.asarray(MESH.nodes))
    np.testing.assert_allclose(Matern52(0.6).matrix(MESH.nodes, MESH.nodes), gram, atol=1e-8)


def test_the_mean_and_the_transform_apply_at_each_point():
    latent = LogGP(RBF(0.3, 0.5), inducing=5, median=lambda x: 2.0 + x[0]).on(MESH)
    flat = latent.field.nodal(latent.value(jnp.zeros(5)))
    np.testing.assert_allclose(flat, 2.0 + MESH.nodes[:, 0])
    drawn = jnp.ones(5)
    plain = GP(RBF(0.3, 0.5), inducing=5).on(MESH)
    np.testing.assert_allclose(
        latent.field.nodal(latent.value(drawn)),
        (2.0 + MESH.nodes[:, 0]) * jnp.exp(plain.field.nodal(plain.value(drawn))),
    )


def test_a_field_in_an_equation_is_the_function_of_the_place(normals):
    """The same residual and Dirichlet values as with the formula written by hand."""
    latent = LogGP(Matern52(0.4), inducing=6).on(MESH)
    weights = latent.value(normals(0, 6))
    field, z = latent.coefficient("a"), {"a": latent.entry(weights)}
    by_hand = Function(lambda x: latent.field.at_place(x, weights), 1)
    state = normals(1, MESH.num_nodes)
    form = diffusion(field) - diffusion(by_hand)
    problem = boundary_value_problem(P1(MESH), form, {"left": field})
    np.testing.assert_allclose(residual(problem, state, z), 0.0, atol=1e-13)
    at_nodes = latent.field.nodal(weights)
    np.testing.assert_allclose(dirichlet_values(problem, z), at_nodes[problem.fixed])


def test_inducing_points_are_spread_and_the_same_every_time():
    chosen = spread_nodes(MESH, 4 + 1, np.ones(1))
    corners = {(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)}
    assert corners < set(map(tuple, MESH.nodes[chosen].tolist()))
    fine = rectangle((60, 60))
    thinned = spread_nodes(fine, 20, np.ones(1))
    np.testing.assert_array_equal(thinned, spread_nodes(fine, 20, np.ones(1)))
    assert len(set(thinned.tolist())) == 20


def test_farthest_points_halve_an_interval():
    points = np.linspace(0, 1, 9)[:, None]
    assert sorted(points[farthest_points(points, 5), 0].tolist()) == [0, 0.25, 0.5, 0.75, 1]


def test_the_description_is_in_physical_units():
    text = LogGP(Matern52(0.5, 0.7), inducing=30, median=20.0).on(MESH).describe()
    assert "Matern52 with length scale 0.5" in text
    assert "30 inducing points keep 9" in text
    cut = LogGP(Matern52(0.5, 0.7), inducing=9999, median=20.0).on(MESH).describe()
    assert f"{MESH.num_nodes} inducing points (of 9999 that were asked for" in cut
    low, high = 20 * np.exp(-1.96 * 0.7), 20 * np.exp(1.96 * 0.7)
    assert f"within {low:.4g} .. {high:.4g}, median 20" in text


def test_few_nodes_are_all_taken():
    assert GP(RBF(0.5), inducing=50).on(interval(4)).num_coordinates == 5


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GP(RBF(1.0), inducing=0), "at least one point"),
        (lambda: GP(RBF(1.0), np.zeros((3, 3))).on(MESH), r"shape \(3, 3\)"),
        (lambda: GP(RBF(1.0), np.zeros((2, 2))).on(MESH), "more than once"),
        (lambda: GP(RBF(1.0), mean=np.inf), "the mean of a field is inf"),
        (lambda: GP(RBF(1.0), mean=lambda x: x).on(MESH), r"mean of a field has shape \(2,\)"),
        (lambda: LogGP(RBF(1.0), median=-1.0), "median of a positive field is -1.0"),
    ],
)
def test_bad_processes_are_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()
