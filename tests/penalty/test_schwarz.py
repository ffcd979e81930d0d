"""The Schwarz norm: positive, unbiased, equivalent to the dual norm, consistent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.sparse.linalg as spla

import riesz as rz
from riesz.errors import RieszError
from riesz.penalty.gram import dual_norm
from riesz.penalty.norm import NormSample
from riesz.penalty.patch import overlapping_patches
from riesz.penalty.penalty import weak_form_penalty
from riesz.penalty.schwarz import schwarz_norm
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells

EQUATION = rz.diffusion("a") + rz.advection("tau") - rz.source(1.0)
Z = {"a": jnp.asarray(1.3), "tau": jnp.asarray([1.0, -0.5])}


def problem_on(mesh, equation=EQUATION, dirichlet=None):
    dirichlet = {"boundary": 0.0} if dirichlet is None else dirichlet
    return rz.boundary_value_problem(rz.P1(mesh), equation, dirichlet)


@pytest.fixture(scope="module")
def square():
    hierarchy = rz.hierarchy(rz.rectangle((4, 4)), 4)
    problem = problem_on(hierarchy.meshes[-1])
    return problem, hierarchy, schwarz_norm(problem, hierarchy)


def free_noise(problem, seed):
    noise = np.random.default_rng(seed).standard_normal(problem.space.num_dofs)
    return jnp.asarray(noise).at[problem.fixed].set(0.0)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_every_node_lies_in_equally_many_patches(dim):
    points = np.random.default_rng(0).random((1000, dim))
    patches = overlapping_patches(points, 50)
    coverage = np.bincount(patches[patches >= 0], minlength=1000)
    assert set(coverage) == {4}
    assert patches.shape[1] == 50


def test_blocks_of_a_single_node_keep_their_place():
    points = np.stack([np.arange(5.0), np.zeros(5)], axis=1)
    patches = overlapping_patches(points, 2, num_partitions=1)
    assert [sorted(row[row >= 0]) for row in patches] == [[0], [1, 2], [3, 4]]


def test_the_coarsest_mesh_with_free_nodes_makes_a_level():
    thin = rz.hierarchy(rz.rectangle((1, 6)), 3)  # the coarsest has none
    norm = schwarz_norm(problem_on(thin.meshes[-1]), thin, patch_nodes=8)
    assert norm.coarse is not None
    assert np.asarray(norm.coarse.table.rows).max() < thin.meshes[1].num_nodes


@pytest.mark.slow
def test_a_patch_that_holds_all_nodes_gives_the_exact_norm():
    problem = problem_on(rz.mesh.disc(5))
    norm = schwarz_norm(problem, patch_nodes=problem.num_free)
    r = free_noise(problem, 0)
    exact = dual_norm(problem).squared(r[problem.free])
    np.testing.assert_allclose(eqx.filter_jit(norm.squared)(r), exact, rtol=1e-10)


@pytest.mark.slow
def test_the_mean_over_all_patches_is_the_norm_and_so_are_its_gradients(square):
    problem, _, norm = square
    r = free_noise(problem, 1)

    def estimate(r, fine, coarse):
        # One patch each; the factor of a drawn patch depends only on its level.
        sample = NormSample(one_of(norm.fine, fine), one_of(norm.coarse, coarse))
        return norm.squared(r, sample)

    def one_of(patches, index):
        whole = patches.all()
        return eqx.tree_at(
            lambda s: (s.patches, s.factors), whole, (whole.patches[index], whole.factors[index])
        )

    fine = jnp.arange(norm.fine.num_patches)[:, None]
    coarse = jnp.zeros((len(fine), 1), int)  # this hierarchy's coarse level is one patch
    estimates = jax.jit(jax.vmap(estimate, in_axes=(None, 0, 0)))
    np.testing.assert_allclose(jnp.mean(estimates(r, fine, coarse)), norm.squared(r), rtol=1e-10)
    of_mean = jax.grad(lambda r: jnp.mean(estimates(r, fine, coarse)))(r)
    np.testing.assert_allclose(of_mean, jax.grad(norm.squared)(r), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_drawn_factors_make_the_estimate_unbiased(square):
    problem, _, norm = square
    r = free_noise(problem, 2)
    draws = jax.jit(jax.vmap(lambda key: norm.squared(r, norm.sample(key, 4))))
    values = np.asarray(draws(jr.split(jr.key(0), 4000)))
    spread = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - norm.squared(r)) < 4 * spread
    assert values.min() > 0


def extremes(problem, hierarchy):
    """Smallest and largest eigenvalue of the Schwarz form against the inverse Gram matrix."""
    norm, gram = schwarz_norm(problem, hierarchy), dual_norm(problem).gram.to_scipy()
    zero = jnp.zeros(problem.space.num_dofs)
    apply = jax.jit(jax.grad(lambda r: norm.squared(zero.at[problem.free].set(r)) / 2))
    size = gram.shape[0]
    form = spla.LinearOperator(
        (size, size),
        matvec=lambda v: gram @ np.asarray(apply(jnp.asarray(gram @ v.ravel()))),
        dtype=float,
    )
    inverse = spla.LinearOperator((size, size), matvec=spla.splu(gram.tocsc()).solve, dtype=float)
    values = spla.eigsh(
        form, k=2, M=gram, Minv=inverse, which="BE", tol=1e-3, ncv=50, return_eigenvectors=False
    )
    return values.min(), values.max()


@pytest.mark.slow
def test_the_norm_is_equivalent_to_the_dual_norm_uniformly_in_the_mesh():
    conditions = []
    for levels in (4, 5):
        hierarchy = rz.hierarchy(rz.rectangle((4, 4)), levels)
        low, high = extremes(problem_on(hierarchy.meshes[-1], rz.diffusion(1.0)), hierarchy)
        assert low < 1 < high
        conditions.append(high / low)
    assert max(conditions) < 10, conditions
    assert conditions[1] < 1.5 * conditions[0], conditions


@pytest.mark.slow
def test_it_is_equivalent_on_a_graded_polygon_too():
    coarse = rz.mesh_from_polygon(
        aquifer_outline(), max_edge=4e4, refine_near=aquifer_wells(), near_edge=8e3
    )
    hierarchy = rz.hierarchy(coarse, 2)
    low, high = extremes(problem_on(hierarchy.meshes[-1], rz.diffusion(1.0)), hierarchy)
    assert low < 1 < high
    assert high / low < 20


def enumerated(penalty, u, zs):
    return eqx.filter_jit(lambda p: p.estimates(p.norm.all(), u, zs))(penalty)


@pytest.mark.slow
def test_the_penalty_of_a_function_agrees_with_the_norm_of_its_nodal_residual(square):
    problem, hierarchy, norm = square
    penalty = weak_form_penalty(problem, hierarchy)

    def u(x, z):
        return x[0] * (1 - x[0]) * jnp.sin(jnp.pi * x[1]) * z["a"]

    zs = jax.tree.map(lambda leaf: leaf[None], Z)
    nodes = jnp.asarray(problem.space.points)
    state = jax.vmap(lambda x: u(x, Z))(nodes).at[problem.fixed].set(0.0)
    r = rz.fem.residual(problem, state, Z).at[problem.fixed].set(0.0)
    np.testing.assert_allclose(enumerated(penalty, u, zs)[0], norm.squared(r), rtol=2e-3)


@pytest.mark.slow
def test_at_the_solution_the_penalty_is_far_below_its_value_at_zero(square):
    problem, _, norm = square
    u = rz.solve(problem, Z)
    at = [norm.squared(rz.fem.residual(problem, s, Z).at[problem.fixed].set(0)) for s in (u, 0 * u)]
    assert at[0] < 1e-12 * at[1]


@pytest.mark.slow
def test_boundary_terms_and_wells_are_seen_on_every_level():
    hierarchy = rz.hierarchy(rz.rectangle((4, 4)), 3)
    equation = (
        rz.diffusion(lambda x: 1 + x[0])
        + rz.reaction(0.5)
        + rz.robin(2.0, 1.0, on="right")
        + rz.neumann(lambda x: x[0], on="top")
        - rz.point_source([[0.3, 0.4], [0.7, 0.2]], "rates")
    )
    problem = problem_on(hierarchy.meshes[-1], equation, {"left": 1.0})
    penalty = weak_form_penalty(problem, hierarchy)
    z = {"rates": jnp.asarray([1.0, -2.0])}

    def u(x, z):
        return 1 + x[0] * jnp.cos(x[1])

    state = jax.vmap(lambda x: u(x, z))(jnp.asarray(problem.space.points))
    r = rz.fem.residual(problem, state, z).at[problem.fixed].set(0.0)
    zs = jax.tree.map(lambda leaf: leaf[None], z)
    np.testing.assert_allclose(enumerated(penalty, u, zs)[0], penalty.norm.squared(r), rtol=5e-3)


def test_bad_settings_are_refused(square):
    problem, _, norm = square
    with pytest.raises(RieszError, match="larger than the mesh"):
        schwarz_norm(problem, patch_nodes=10**6)
    with pytest.raises(RieszError, match="at least one node"):
        schwarz_norm(problem, patch_nodes=0)
    with pytest.raises(RieszError, match="nothing coarser"):
        schwarz_norm(problem, rz.hierarchy(problem.space.mesh, 1))
    with pytest.raises(RieszError, match="does not live on the finest mesh"):
        schwarz_norm(problem, rz.hierarchy(rz.rectangle((4, 4)), 3))
    with pytest.raises(RieszError, match="draw one patch or more"):
        norm.sample(jr.key(0), 0)
    quadratic = rz.boundary_value_problem(
        rz.P2(rz.rectangle((4, 4))), rz.diffusion(1.0), {"boundary": 0.0}
    )
    with pytest.raises(RieszError, match="P1 elements"):
        schwarz_norm(quadratic)
