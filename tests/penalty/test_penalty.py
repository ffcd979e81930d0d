"""The weak-form penalty: its state kinds, what it estimates, what it sees, and what it refuses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.fft
import scipy.linalg

import riesz as rz
from riesz.errors import RieszError
from riesz.fem.elements.domain import inverse_jacobians, quadrature
from riesz.penalty.level_points import DEGREE

# Every coefficient is a latent, so that one problem and few compiled programs serve all tests.
EQUATION = rz.diffusion("a") + rz.advection("tau") + rz.reaction("k") - rz.source("f")
ZS = {
    "a": jnp.asarray([1.3, 0.7]),
    "tau": jnp.asarray([[1.0, -0.5], [0.0, 2.0]]),
    "k": jnp.asarray([0.0, 0.5]),
    "f": jnp.asarray([1.0, -2.0]),
}
PATCH_NODES = 8
CELLS = 16  # along a side


def problem_on(mesh, equation=EQUATION, **options):
    return rz.boundary_value_problem(rz.P1(mesh), equation, {"boundary": 0.0}, **options)


@pytest.fixture(scope="module")
def meshes():
    """17^2 nodes in the end; with patches of eight, levels of 5^2 and 3^2 nodes below."""
    return rz.hierarchy(rz.rectangle((2, 2)), 4)


@pytest.fixture(scope="module")
def problem(meshes):
    return problem_on(meshes.meshes[-1])


@pytest.fixture(scope="module")
def penalty(problem, meshes):
    return rz.weak_form_penalty(problem, meshes, patch_nodes=PATCH_NODES)


@pytest.fixture(scope="module")
def by_gradients(problem, meshes):
    return rz.weak_form_penalty(problem, meshes, patch_nodes=PATCH_NODES, gradients=True)


@eqx.filter_jit
def enumerated(penalty, u, zs):
    """The mean over all patches."""
    return penalty.estimates(penalty.norm.all(), u, zs)


@eqx.filter_jit
def squared(norm, residual):
    return norm.squared(residual)


class Net(eqx.Module):
    """A small network with the boundary condition built in."""

    layers: list

    def __call__(self, x, z):
        (first, shift), (second, scale) = self.layers
        inside = x[0] * (1 - x[0]) * x[1] * (1 - x[1])
        return 16 * inside * jnp.dot(jnp.tanh(x @ first + shift), second @ z["tau"] + scale)


def draw_net(dtype=float):
    rng = np.random.default_rng(3)
    shapes = [((2, 8), (8,)), ((8, 2), (8,))]
    draws = [tuple(rng.standard_normal(shape) for shape in pair) for pair in shapes]
    return Net(jax.tree.map(lambda values: jnp.asarray(values, dtype), draws))


# An independent account of the whole form: dense algebra, and quadrature written out.


def residual_by(rule, mesh, u, z):
    """The residual of u at all nodes of a mesh, by a rule of points on each triangle."""
    points, weights = rule.points, rule.weights
    corners = mesh.nodes[mesh.cells]
    slopes = np.moveaxis(inverse_jacobians(mesh.nodes, mesh.cells), 2, 0)
    slopes = np.concatenate([-slopes.sum(axis=1, keepdims=True), slopes], axis=1)
    x = jnp.asarray(np.einsum("qi,cid->cqd", points, corners))
    areas = 0.5 * np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    grads = jax.vmap(jax.vmap(jax.grad(lambda place: u(place, z))))(x)
    values = jax.vmap(jax.vmap(lambda place: u(place, z)))(x)
    density = grads @ z["tau"] + z["k"] * values - z["f"]
    parts = z["a"] * jnp.einsum("q,cqd,cid->ci", weights, grads, slopes)
    parts = parts + jnp.einsum("q,cq,qi->ci", weights, density, points)
    total = jnp.zeros(mesh.num_nodes)
    return total.at[mesh.cells].add(areas[:, None] * parts)


def stiffness(mesh, diffusivity=1.0):
    """The Gram matrix on all nodes of a mesh, dense."""
    slopes = np.moveaxis(inverse_jacobians(mesh.nodes, mesh.cells), 2, 0)
    slopes = np.concatenate([-slopes.sum(axis=1, keepdims=True), slopes], axis=1)
    corners = mesh.nodes[mesh.cells]
    areas = 0.5 * np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) * diffusivity
    matrix = np.zeros((mesh.num_nodes, mesh.num_nodes))
    parts = np.einsum("c,cid,cjd->cij", areas, slopes, slopes)
    np.add.at(matrix, (mesh.cells[:, :, None], mesh.cells[:, None, :]), parts)
    return matrix


def form_of(patches, gram):
    """The matrix of the sum over all patches, from the Gram matrix on all nodes."""
    matrix = np.zeros(gram.shape)
    whole = patches.all()
    for rows, factor in zip(np.asarray(patches.table.rows), np.asarray(whole.factors), strict=True):
        square = np.ix_(rows[rows >= 0], rows[rows >= 0])
        matrix[square] += factor / patches.num_patches * np.linalg.inv(gram[square])
    return jnp.asarray(matrix)


class Deterministic:
    """The form that the default penalty estimates, for functions."""

    def __init__(self, penalty, meshes):
        chosen = (meshes.meshes[1], meshes.meshes[0])
        self.problem, self.coarse_meshes = penalty.problem, chosen
        self.fine = form_of(penalty.norm.fine, stiffness(meshes.meshes[-1]))
        self.coarse = form_of(penalty.norm.coarse, scipy.linalg.block_diag(*map(stiffness, chosen)))

    def interpolant_residual(self, u, z):
        nodes = jnp.asarray(self.problem.space.points)
        state = jax.vmap(lambda x: u(x, z))(nodes).at[self.problem.fixed].set(0.0)
        return rz.fem.residual(self.problem, state, z)

    def function_residual(self, u, z, rule):
        return residual_by(rule, self.problem.space.mesh, u, z)

    def squared(self, r, u, z, rule):
        coarse = jnp.concatenate([residual_by(rule, mesh, u, z) for mesh in self.coarse_meshes])
        return r @ self.fine @ r + coarse @ self.coarse @ coarse


@pytest.fixture(scope="module")
def deterministic(penalty, meshes):
    return Deterministic(penalty, meshes)


@pytest.mark.parametrize("gradients", [pytest.param(False, marks=pytest.mark.slow), True])
def test_all_patches_together_give_the_deterministic_form_and_its_gradient(
    penalty, by_gradients, deterministic, gradients
):
    rule = quadrature(2, DEGREE)

    def whole(net):
        def one(z):
            r = (
                deterministic.function_residual(net, z, rule)
                if gradients
                else deterministic.interpolant_residual(net, z)
            )
            return deterministic.squared(r, net, z, rule)

        return jnp.mean(jax.vmap(one)(ZS))

    estimator = by_gradients if gradients else penalty
    of_patches = jax.value_and_grad(lambda net: jnp.mean(enumerated(estimator, net, ZS)))
    found, wanted = of_patches(draw_net()), jax.jit(jax.value_and_grad(whole))(draw_net())
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.fixture(scope="module")
def nodal_squares(penalty, problem):
    """Of the network's values at the nodes, exactly."""

    @jax.jit
    @jax.vmap
    def of_sample(z):
        state = jax.vmap(lambda x: draw_net()(x, z))(jnp.asarray(problem.space.points))
        return penalty.norm.squared(rz.fem.residual(problem, state.at[problem.fixed].set(0.0), z))

    return np.asarray(of_sample(ZS))


@pytest.fixture(scope="module")
def interpolant_squares(penalty):
    return np.asarray(enumerated(penalty, draw_net(), ZS))


@pytest.mark.slow
def test_nodal_vectors_interpolants_and_gradients_agree_on_smooth_states(
    interpolant_squares, by_gradients, nodal_squares
):
    """The gap between exact restriction and quadrature, which refinement closes, by numbers."""
    gap = np.max(np.abs(interpolant_squares / nodal_squares - 1))
    assert 1e-6 < gap < 0.02, f"relative gap {gap:.1e} on 17^2 nodes"
    gap = np.max(np.abs(np.asarray(enumerated(by_gradients, draw_net(), ZS)) / nodal_squares - 1))
    assert 1e-6 < gap < 0.05, f"relative gap {gap:.1e} on 17^2 nodes"


FREQUENCIES = (1, 3, 8, 12, 15, 16)  # half waves along a side; the mesh carries up to CELLS


def waves(diffusivity, reaction):
    """Products of sines, with the same equation for each."""
    modes = jnp.asarray([[k, m] for k in FREQUENCIES for m in FREQUENCIES], float)
    same = jnp.ones(len(modes))
    return {
        "mode": modes,
        "a": diffusivity * same,
        "tau": jnp.zeros((len(modes), 2)),
        "k": reaction * same,
        "f": 0 * same,
    }


def wave(x, z):
    return jnp.sin(z["mode"][0] * jnp.pi * x[0]) * jnp.sin(z["mode"][1] * jnp.pi * x[1])


@pytest.mark.slow
def test_no_mode_up_to_the_meshs_nyquist_frequency_is_invisible(
    penalty, by_gradients, deterministic
):
    """Against the same form by quadrature of degree 20, for diffusion and for reaction.

    Six points never see less than 0.9 of a mode. They see more of those that the test functions
    hardly feel: points of coarse cells take a short wave for a long one, which one point a cell
    does far worse. The interpolant of the shortest wave is zero.
    """
    parts = waves(1.0, 0.0), waves(1e-4, 1.0)
    zs = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    def by(degree):
        rule = quadrature(2, degree)

        def one(z):
            r = deterministic.function_residual(wave, z, rule)
            return deterministic.squared(r, wave, z, rule)

        return np.asarray(jax.jit(lambda zs: jax.lax.map(one, zs, batch_size=12))(zs))

    exact = by(20)
    diffusive, reactive = (np.asarray(enumerated(by_gradients, wave, zs)) / exact).reshape(2, -1)
    assert min(diffusive.min(), reactive.min()) > 0.9
    assert diffusive.max() < 2
    one_point = (by(1) / exact).reshape(2, -1).max(axis=1)
    assert one_point[0] > 3
    assert one_point[1] > 5 * reactive.max()
    assert enumerated(penalty, wave, zs)[len(diffusive) - 1] < 1e-20


@pytest.mark.slow
def test_at_the_finite_element_solution_the_penalty_is_next_to_nothing(penalty, problem):
    key = jr.key(0)
    z = jax.tree.map(lambda leaf: leaf[0], ZS)
    zs = jax.tree.map(lambda leaf: leaf[:1], ZS)
    state = rz.solve(problem, z)
    zero = 0 * state
    at = jax.jit(lambda states: penalty.nodal(key, states, zs))
    assert at(state[None]) < 1e-6 * at(zero[None])

    # A smooth function through the solution's nodal values: a series of sines.
    inside = np.zeros((CELLS + 1, CELLS + 1))
    places = np.rint(problem.space.points * CELLS).astype(int)
    inside[tuple(places.T)] = state
    series = scipy.fft.dstn(inside[1:-1, 1:-1], type=1) / CELLS**2
    waves = jnp.pi * jnp.arange(1.0, CELLS)

    def u(x, z):
        return z["size"] * jnp.sin(waves * x[0]) @ jnp.asarray(series) @ jnp.sin(waves * x[1])

    both = jax.tree.map(lambda leaf: jnp.stack([leaf[0], leaf[0]]), ZS)
    values = enumerated(penalty, u, {**both, "size": jnp.asarray([1.0, 0.0])})
    assert values[0] < 1e-3 * values[1]


@pytest.mark.slow
def test_a_hundred_thousand_random_residuals_have_no_negative_estimate(problem, meshes):
    norm = rz.penalty.schwarz_norm(problem, meshes)
    assert norm.coarse is not None
    assert norm.restriction is not None

    def estimates(patches, sample, residuals):
        rows = patches.table.rows[sample.patches]
        return patches.estimate(sample, jnp.where((rows < 0)[:, :, None], 0.0, residuals[rows]))

    def least(key):
        draw, noise, scale = jr.split(key, 3)
        sample = norm.sample(draw, 4)
        fine = jr.normal(noise, (problem.space.num_dofs, 2000))
        fine = fine * 10.0 ** jr.uniform(scale, (1, 2000), minval=-6.0, maxval=6.0)
        coarse = jax.vmap(norm.restriction, in_axes=1, out_axes=1)(fine)
        total = estimates(norm.fine, sample.fine, fine)
        return jnp.min(total + estimates(norm.coarse, sample.coarse, coarse))

    assert jnp.min(jax.jit(lambda keys: jax.lax.map(least, keys))(jr.split(jr.key(0), 50))) > 0


@pytest.mark.slow
def test_a_single_patch_is_unbiased_too(penalty, problem):
    norm = penalty.norm
    r = np.random.default_rng(1).normal(size=problem.space.num_dofs)
    r[np.asarray(problem.fixed)] = 0.0
    r = jnp.asarray(r)
    draws = jax.jit(jax.vmap(lambda key: norm.squared(r, norm.sample(key, 1))))
    values = np.asarray(draws(jr.split(jr.key(2), 4000)))
    assert abs(values.mean() - squared(norm, r)) < 4 * values.std() / np.sqrt(len(values))


@pytest.mark.slow
def test_a_draws_factor_times_its_probability_is_its_weight_in_the_whole_form(penalty):
    for patches in (penalty.norm.fine, penalty.norm.coarse):
        drawn = eqx.filter_jit(lambda patches: patches.sample(jr.key(3), 200))(patches)
        whole = patches.all()
        sizes = np.asarray(patches.level_sizes)
        level = np.repeat(np.arange(len(sizes)), sizes)[np.asarray(drawn.patches)]
        assert set(level) == set(range(len(sizes)))
        probability = 1 / (len(sizes) * sizes[level])
        weights = np.asarray(whole.factors)[np.asarray(drawn.patches)] / patches.num_patches
        np.testing.assert_allclose(drawn.factors * probability, weights, rtol=1e-14)


def test_a_norm_of_its_own_brings_its_own_levels(penalty, problem, meshes, interpolant_squares):
    again = rz.weak_form_penalty(problem, meshes, norm=penalty.norm)
    np.testing.assert_allclose(enumerated(again, draw_net(), ZS), interpolant_squares, rtol=1e-14)


def test_the_whole_mesh_is_restricted_exactly(penalty, problem, meshes, nodal_squares):
    whole = rz.weak_form_penalty(problem, meshes, norm=penalty.norm, whole_mesh=True)
    np.testing.assert_allclose(enumerated(whole, draw_net(), ZS), nodal_squares, rtol=1e-10)


@pytest.mark.slow  # quickly: one without jumps
def test_a_gram_form_with_jumps_is_equivalent_to_its_dual_norm(problem, meshes):
    mesh = meshes.meshes[-1]
    squares = np.floor(4 * mesh.nodes[mesh.cells].mean(axis=1)).sum(axis=1)
    jumps = np.where(squares % 2 == 0, 1.0, 100.0)
    norm = rz.penalty.schwarz_norm(
        problem, meshes, patch_nodes=PATCH_NODES, gram=rz.penalty.Gram(diffusivity=jumps)
    )
    gram = np.asarray(rz.penalty.dual_norm(problem, rz.penalty.Gram(jumps)).gram.to_dense())
    zero = jnp.zeros(problem.space.num_dofs)

    def half_squared(r):
        return norm.squared(zero.at[problem.free].set(r)) / 2

    form = jax.jit(jax.vmap(jax.grad(half_squared)))(jnp.eye(problem.num_free))
    values = scipy.linalg.eigh(gram @ np.asarray(form) @ gram, gram, eigvals_only=True)
    assert values[0] < 1 < values[-1]
    assert values[-1] / values[0] < 25


@pytest.mark.slow
def test_single_precision_stays_single_and_loses_little(meshes, interpolant_squares):
    """Promotion is strict here, so that no array could have become double on the way."""
    problem = problem_on(meshes.meshes[-1], dtype=jnp.float32)
    penalty = rz.weak_form_penalty(problem, meshes, patch_nodes=PATCH_NODES)
    zs = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), ZS)
    values = enumerated(penalty, draw_net(jnp.float32), zs)
    assert values.dtype == jnp.float32
    assert interpolant_squares.dtype == np.float64
    np.testing.assert_allclose(values, interpolant_squares, rtol=1e-4)


@pytest.mark.parametrize("coarse", [rz.interval(4), rz.mesh.box((2, 2, 2))], ids=["1D", "3D"])
@pytest.mark.slow
def test_on_lines_and_in_space_functions_agree_with_their_nodal_residuals(coarse):
    meshes = rz.hierarchy(coarse, 3)
    problem = problem_on(meshes.meshes[-1], rz.diffusion(1.0) - rz.source(1.0))
    penalty = rz.weak_form_penalty(problem, meshes, patch_nodes=PATCH_NODES)

    def u(x, z):
        return jnp.prod(jnp.sin(jnp.pi * x))

    state = np.prod(np.sin(np.pi * problem.space.points), axis=1)
    state[np.asarray(problem.fixed)] = 0.0
    squared = jax.jit(lambda state: penalty.norm.squared(rz.fem.residual(problem, state)))
    nodal = squared(jnp.asarray(state))
    np.testing.assert_allclose(enumerated(penalty, u, None)[0], nodal, rtol=0.05)


def test_what_cannot_be_is_refused(penalty, problem, meshes):
    key = jr.key(0)
    with pytest.raises(RieszError, match=r"u\(x, z\) has shape \(2,\)"):
        penalty(key, lambda x, z: x, ZS)
    with pytest.raises(RieszError, match="has 289 unknowns"):
        penalty.nodal(key, jnp.zeros((2, 5)), ZS)
    for diffusivity in (np.nan, -1.0, 0.0):
        with pytest.raises(RieszError, match="positive finite diffusivity"):
            rz.penalty.schwarz_norm(problem, meshes, gram=rz.penalty.Gram(diffusivity=diffusivity))
    with pytest.raises(RieszError, match="one value a cell"):
        rz.penalty.schwarz_norm(problem, meshes, gram=rz.penalty.Gram(diffusivity=np.ones(3)))
    with pytest.raises(RieszError, match="larger than the mesh"):
        rz.weak_form_penalty(problem, meshes, patch_nodes=1000)
    with pytest.raises(RieszError, match="nothing coarser"):
        rz.weak_form_penalty(problem, rz.hierarchy(problem.space.mesh, 1))
    with pytest.raises(RieszError, match="draw one patch or more"):
        rz.weak_form_penalty(problem, meshes, num_patches=0)(key, draw_net(), ZS)
    with pytest.raises(RieszError, match="reaction, not negative"):
        rz.penalty.schwarz_norm(problem, meshes, gram=rz.penalty.Gram(reaction=np.inf))
    natural = rz.boundary_value_problem(problem.space, EQUATION)
    with pytest.raises(RieszError, match="constants have no energy"):
        rz.weak_form_penalty(natural, meshes)
    with pytest.raises(RieszError, match="norm and gram are both given"):
        rz.weak_form_penalty(problem, meshes, norm=penalty.norm, gram=rz.penalty.Gram())
    with pytest.raises(RieszError, match="pass the hierarchy"):
        rz.weak_form_penalty(problem, norm=penalty.norm)
    with pytest.raises(RieszError, match="leave out gradients"):
        rz.weak_form_penalty(problem, meshes, gradients=True, whole_mesh=True)
    with pytest.raises(RieszError, match="all 4 unknowns are prescribed"):
        problem_on(rz.rectangle((1, 1)))


def test_one_level_of_several_patches_is_warned_of_unless_meant(problem):
    with pytest.warns(UserWarning, match=r"hierarchy\(coarse_mesh, levels\)"):
        rz.weak_form_penalty(problem, patch_nodes=PATCH_NODES)
    assert rz.penalty.schwarz_norm(problem, patch_nodes=PATCH_NODES, one_level=True).coarse is None
    assert rz.penalty.schwarz_norm(problem, patch_nodes=problem.num_free).fine.num_patches == 1
