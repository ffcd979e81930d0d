"""Tapered norms: unbiased, as definite as their tapers, and exact once they see everything."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import riesz as rz
from riesz.errors import RieszError
from riesz.penalty.gram import dual_norm
from riesz.penalty.norm import NormSample, PatchSample
from riesz.penalty.patch import overlapping_patches
from riesz_paper.tapers.taper import HardTaper, Wendland, radius_holding
from riesz_paper.tapers.tapered import block_norm, taper_radius, tapered_norm

EQUATION = rz.diffusion("a") + rz.advection("tau") - rz.source(1.0)
Z = {"a": jnp.asarray(1.3), "tau": jnp.asarray([1.0, -0.5])}


def problem_on(mesh, equation=EQUATION):
    return rz.boundary_value_problem(rz.P1(mesh), equation, {"boundary": 0.0})


@pytest.fixture(scope="module")
def problem():
    return problem_on(rz.mesh.disc(7))


def inverse_gram(problem):
    return np.linalg.inv(np.asarray(dual_norm(problem).gram.to_dense()))


def dense_taper(problem, taper):
    """The tapered inverse, written out."""
    points = problem.space.points[np.asarray(problem.free)]
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    return inverse_gram(problem) * taper.weights(distances, points.shape[1])


def dense_blocks(problem, patch_nodes):
    points = problem.space.points[np.asarray(problem.free)]
    inverse, form = inverse_gram(problem), np.zeros((len(points), len(points)))
    patches = overlapping_patches(points, patch_nodes)
    for patch in patches:
        rows = patch[patch >= 0]
        form[np.ix_(rows, rows)] += inverse[np.ix_(rows, rows)]
    return form * len(points) / (patches >= 0).sum()


def free_noise(problem, seed):
    noise = np.random.default_rng(seed).standard_normal(problem.space.num_dofs)
    return jnp.asarray(noise).at[problem.fixed].set(0.0)


def one_by_one(norm, r):
    """The estimate from each patch alone."""
    patches = norm.fine.all()

    def estimate(index, factor):
        return norm.squared(r, NormSample(PatchSample(index[None], factor[None]), None))

    return jax.vmap(estimate)(patches.patches, patches.factors)


@eqx.filter_jit
def mean_and_slope(norm, r):
    """Of the mean over all patches."""
    return jax.value_and_grad(lambda r: jnp.mean(one_by_one(norm, r)))(r)


@eqx.filter_jit
def squared(norm, r):
    return norm.squared(r)


@pytest.mark.parametrize("taper", [HardTaper(0.6), Wendland(0.6)])
def test_the_mean_over_all_nodes_is_the_tapered_form_and_so_are_its_gradients(problem, taper):
    norm, form = tapered_norm(problem, taper), dense_taper(problem, taper)
    r = free_noise(problem, 0)
    free = np.asarray(r[problem.free])
    mean, slope = mean_and_slope(norm, r)
    np.testing.assert_allclose(mean, free @ form @ free, rtol=1e-10)
    np.testing.assert_allclose(slope[problem.free], 2 * form @ free, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(squared(norm, r), free @ form @ free, rtol=1e-10)


def test_the_mean_over_all_blocks_is_the_sum_of_principal_blocks(problem):
    norm, form = block_norm(problem, patch_nodes=20), dense_blocks(problem, 20)
    r = free_noise(problem, 1)
    free = np.asarray(r[problem.free])
    mean, slope = mean_and_slope(norm, r)
    np.testing.assert_allclose(mean, free @ form @ free, rtol=1e-10)
    np.testing.assert_allclose(squared(norm, r), free @ form @ free, rtol=1e-10)
    np.testing.assert_allclose(slope[problem.free], 2 * form @ free, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(form).min() > 0


@pytest.mark.parametrize("printed", [False, True])
def test_the_mean_of_drawn_estimates_is_the_norm(problem, printed):
    norm, r = tapered_norm(problem, Wendland(0.6), printed=printed), free_noise(problem, 2)
    draws = jax.jit(jax.vmap(lambda key: norm.squared(r, norm.sample(key, 3))))
    values = np.asarray(draws(jr.split(jr.key(0), 4000)))
    assert abs(values.mean() - norm.squared(r)) < 4 * values.std() / np.sqrt(len(values))


def test_the_printed_formula_is_smaller_by_the_number_of_free_nodes(problem):
    r = free_noise(problem, 3)
    ours, printed = (tapered_norm(problem, HardTaper(0.5), printed=p) for p in (False, True))
    np.testing.assert_allclose(squared(printed, r) * problem.num_free, squared(ours, r), rtol=1e-12)


@pytest.mark.parametrize("taper", [HardTaper(10.0), Wendland(1e6)])
def test_a_taper_that_reaches_everywhere_gives_the_exact_norm(problem, taper):
    r = free_noise(problem, 4)
    exact = dual_norm(problem).squared(r[problem.free])
    np.testing.assert_allclose(squared(tapered_norm(problem, taper), r), exact, rtol=1e-9)


@pytest.mark.parametrize("mesh", [rz.interval(30), rz.mesh.disc(7), rz.mesh.box((5, 5, 5))])
def test_wendland_tapers_are_positive_definite_in_every_dimension(mesh):
    problem = problem_on(mesh, rz.diffusion(1.0))
    for patch_nodes in (4, 10):
        taper = Wendland(taper_radius(problem, patch_nodes))
        assert np.linalg.eigvalsh(dense_taper(problem, taper)).min() > 0
        points = problem.space.points[np.asarray(problem.free)]
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        assert np.linalg.eigvalsh(taper.weights(distances, mesh.dim)).min() > 0


def test_the_hard_taper_is_indefinite_and_its_norm_may_be_negative():
    problem = problem_on(rz.rectangle((16, 16)))
    taper = HardTaper(taper_radius(problem, 32))
    values, vectors = np.linalg.eigh(dense_taper(problem, taper))
    assert 0.05 < np.mean(values < 0) < 0.5
    r = jnp.zeros(problem.space.num_dofs).at[problem.free].set(vectors[:, 0])
    np.testing.assert_allclose(squared(tapered_norm(problem, taper), r), values[0], rtol=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_radius_makes_patches_of_the_wanted_size_on_average(dim):
    points = np.random.default_rng(0).random((400, dim))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    for patch_nodes in (1, 32, 64, 400):
        counts = (distances < radius_holding(points, patch_nodes)).sum(axis=1)
        assert patch_nodes <= counts.mean() < patch_nodes + 0.02


@eqx.filter_jit
def enumerated(penalty, u, zs):
    return penalty.estimates(penalty.norm.all(), u, zs)


@eqx.filter_jit
def drawn(penalty, u, zs):
    return penalty(jr.key(0), u, zs)


def test_a_taper_works_as_the_norm_of_a_penalty_for_functions(problem):
    def u(x, z):
        return (1 - x @ x) * (jnp.sin(x[0]) + z["a"])

    zs = jax.tree.map(lambda leaf: leaf[None], Z)
    state = jax.vmap(lambda x: u(x, Z))(jnp.asarray(problem.space.points))
    state = state.at[problem.fixed].set(0.0)
    r = rz.fem.residual(problem, state, Z).at[problem.fixed].set(0.0)
    for norm in (tapered_norm(problem, Wendland(0.4)), block_norm(problem, patch_nodes=20)):
        penalty = rz.weak_form_penalty(problem, norm=norm, num_patches=2)
        np.testing.assert_allclose(enumerated(penalty, u, zs)[0], norm.squared(r), rtol=1e-10)
        assert abs(drawn(penalty, u, zs)) > 0


def test_a_table_that_would_be_too_large_is_refused_beforehand_and_others_are_as_told(problem):
    norm = tapered_norm(problem, Wendland(0.5))
    num_bytes = float(sum(a.nbytes for a in jax.tree.leaves(norm.fine) if eqx.is_array(a)))
    assert num_bytes > norm.fine.inverse_rows.nbytes
    tapered_norm(problem, Wendland(0.5), max_bytes=2 * num_bytes)
    with pytest.raises(RieszError, match=r"would take .* MB, more than max_bytes .* shorten"):
        tapered_norm(problem, Wendland(0.5), max_bytes=num_bytes / 2)
    with pytest.raises(RieszError, match="ask for smaller patches"):
        block_norm(problem, max_bytes=1e3)


@pytest.mark.parametrize("taper", [HardTaper, Wendland])
@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf")])
def test_a_radius_that_is_not_a_positive_number_is_refused(taper, radius):
    with pytest.raises(RieszError, match=r"radius is .*: give a positive number"):
        taper(radius)


def test_other_bad_settings_are_refused(problem):
    with pytest.raises(RieszError, match=r"patches of 0 nodes: ask for 1 to"):
        taper_radius(problem, 0)
    with pytest.raises(RieszError, match="larger than the mesh"):
        block_norm(problem, patch_nodes=10**4)
    quadratic = rz.boundary_value_problem(
        rz.P2(rz.rectangle((3, 3))), rz.diffusion(1.0), {"boundary": 0.0}
    )
    with pytest.raises(RieszError, match="P1 elements"):
        tapered_norm(quadratic, HardTaper(0.5))
    free = rz.boundary_value_problem(rz.P1(rz.rectangle((3, 3))), EQUATION)
    with pytest.raises(RieszError, match="Gram matrix is singular"):
        tapered_norm(free, HardTaper(0.5))
    tapered_norm(free, HardTaper(0.5), gram=rz.penalty.Gram(reaction=1.0))
