"""Truncated expansions against exact eigenvalues and full covariances."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values, residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.weakform import diffusion, neumann
from riesz.mesh.shapes import interval, rectangle
from riesz.priors.fields import FieldWeights
from riesz.priors.karhunen_loeve import KarhunenLoeve, karhunen_loeve_basis, karhunen_loeve_variance
from riesz.priors.kernels import RBF, Matern12, Matern32, Matern52
from riesz.priors.representatives import node_volumes

MESH = rectangle((6, 6))


def exponential_eigenvalues(count):
    """Of the covariance exp(-|x - y|) on the unit interval (Ghanem & Spanos 1991, sec. 2.3.3)."""
    half = 0.5
    even = [
        brentq(lambda w: np.cos(w * half) - w * np.sin(w * half), k * np.pi / half + 1e-9,
               (k + 0.5) * np.pi / half - 1e-9)
        for k in range(count)
    ]  # fmt: skip
    odd = [
        brentq(lambda w: np.sin(w * half) + w * np.cos(w * half), (k - 0.5) * np.pi / half + 1e-9,
               k * np.pi / half)
        for k in range(1, count)
    ]  # fmt: skip
    return np.sort([2 / (w**2 + 1) for w in (*even, *odd)])[::-1][:count]


def test_eigenvalues_of_the_exponential_covariance_on_an_interval():
    mesh = interval(200)
    basis = karhunen_loeve_basis(mesh, Matern12(1.0), 6)
    found = basis**2 @ node_volumes(mesh)
    np.testing.assert_allclose(found, exponential_eigenvalues(6), rtol=4e-3)


def test_all_terms_together_give_the_covariance():
    kernel = Matern32(0.4, 1.5)
    basis = karhunen_loeve_basis(MESH, kernel, MESH.num_nodes)
    np.testing.assert_allclose(basis.T @ basis, kernel.matrix(MESH.nodes, MESH.nodes), atol=1e-10)
    np.testing.assert_allclose(karhunen_loeve_variance(MESH, kernel, basis), 1.0)


def test_functions_are_orthogonal_in_the_domain():
    basis = karhunen_loeve_basis(MESH, Matern52(0.4), 8)
    products = basis * node_volumes(MESH) @ basis.T
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)


def test_many_draws_have_at_some_nodes_the_values_of_each():
    field = KarhunenLoeve(Matern52(0.4), 3, transform=jnp.exp).on(MESH).field
    weights, some = np.random.default_rng(2).standard_normal((4, 3)), np.array([3, 17])
    expected = [np.asarray(field.nodal(jnp.asarray(one)))[some] for one in weights]
    np.testing.assert_allclose(field.nodal_draws(weights, some), expected, rtol=1e-12)


def test_nystrom_extension_agrees_with_the_dense_eigenproblem():
    mesh, kernel = rectangle((16, 14)), Matern52((0.3, 0.5))
    dense = karhunen_loeve_basis(mesh, kernel, 5)
    some = karhunen_loeve_basis(mesh, kernel, 5, dense_nodes=120)
    volumes = node_volumes(mesh)
    np.testing.assert_allclose(some**2 @ volumes, dense**2 @ volumes, rtol=0.02)
    np.testing.assert_allclose(some.T @ some, dense.T @ dense, atol=0.05)


def test_a_smooth_kernel_runs_out_of_variance_before_it_runs_out_of_terms():
    basis = karhunen_loeve_basis(MESH, RBF(2.0), MESH.num_nodes)
    assert np.isfinite(basis).all()


def test_the_field_in_an_equation_is_the_interpolant_of_its_nodal_values(normals):
    latent = KarhunenLoeve(Matern52(0.4), 5, mean=lambda x: 3.0 + x[1]).on(MESH)
    weights = normals(0, 5)
    field, values = latent.coefficient("a"), nodal(latent.field.nodal(weights))
    state = normals(1, MESH.num_nodes)
    form = diffusion(field) + neumann(field, on="right")
    form = form - diffusion(values) - neumann(values, on="right")
    difference = residual(
        boundary_value_problem(P1(MESH), form), state, {"a": latent.entry(weights)}
    )
    np.testing.assert_allclose(difference, 0.0, atol=1e-13)


def test_the_transform_applies_at_each_point(normals):
    plain, positive = (
        KarhunenLoeve(Matern52(0.4), 5, transform=t).on(MESH) for t in (None, jnp.exp)
    )
    weights = normals(2, 5)
    np.testing.assert_allclose(
        positive.field.nodal(weights), jnp.exp(plain.field.nodal(weights)), rtol=1e-12
    )


def test_the_description_says_how_much_variance_is_kept():
    text = KarhunenLoeve(Matern52(0.5), 16, mean=1.0, transform=jnp.exp).on(MESH).describe()
    assert "16 terms keep 99.1 % of the variance" in text
    assert "median 2.718" in text


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KarhunenLoeve(RBF(1.0), 0), "num_terms is 0"),
        (lambda: KarhunenLoeve(RBF(1.0), 50).on(MESH), "50 terms were asked for, .* 49 nodes"),
    ],
)
def test_bad_expansions_are_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()


def test_an_expansion_cannot_be_a_dirichlet_value():
    field = KarhunenLoeve(RBF(1.0), 2).on(MESH).coefficient("g")
    problem = boundary_value_problem(P1(MESH), diffusion(1.0), {"left": field})
    with pytest.raises(RieszError, match="cannot be a Dirichlet value: use GP"):
        dirichlet_values(problem, {"g": FieldWeights(jnp.zeros(2))})
