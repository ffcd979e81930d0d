"""The marginal density: against algebra on the whole problem, written out densely."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from jaxtyping import Array, Float
from tests.linear_gaussian import NOISE, PRIOR_MEAN, PRIOR_SD, linear_problem, response
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

import riesz as rz
from riesz.density.marginal import points as points_module
from riesz.density.marginal.host import Component, DataModel, data_model
from riesz.density.marginal.linear import MarginalDensity
from riesz.density.marginal.marginal import (
    Marginal,
    cost_and_gradient,
    draw_on_host,
    gradient_of,
)
from riesz.density.marginal.points import (
    SteadyPoints,
    TabulatedPoints,
    at_points,
    point_map_at_sensors,
)
from riesz.density.marginal.spread import (
    Spread,
    gaussian_spread,
    sample_hyperparameters,
)
from riesz.diagnose.summary import Summary
from riesz.diagnose.taylor import taylor_test
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import SparseLU
from riesz.method.base import Work
from riesz.method.checkpoint import NO_CHECKPOINT
from riesz.notes import Note
from riesz.posterior.density import AbstractDensity
from riesz.priors.correlated_residual import LocalEffect
from riesz.problem.linearity import Parts, linear_parts

MESH = rz.rectangle((7, 5), upper=(1.4, 1.0))
SENSORS = np.random.default_rng(3).uniform((0.1, 0.1), (1.3, 0.9), (9, 2))
VALUES = 2 + SENSORS[:, 0] - 0.5 * SENSORS[:, 1] ** 2
ELSEWHERE = np.array([[0.33, 0.41], [1.2, 0.2], [0.7, 0.95]])
SCALES = rz.priors.LearnedScales(0.5, 0.3)
LAPLACE = pair("laplace").method


def problem_with(
    latents=None,
    *,
    equation=None,
    likelihood=None,
    sensors=SENSORS,
    values=VALUES,
    source=None,
    learned=None,
):
    source = rz.GP(rz.priors.Matern52(0.4, 2.0), 8) if source is None else source
    edge = rz.BoundaryGP(
        rz.priors.Matern52(0.8, 0.5), 2.0, trend_sd=1.0, inducing=5, learned=learned
    )
    return rz.inverse_problem(
        MESH,
        rz.diffusion(1.3) - rz.source("f") if equation is None else equation,
        latents={"f": source, **(latents or {})},
        observations=rz.observations(sensors, values),
        likelihood=rz.Gaussian(0.05) if likelihood is None else likelihood,
        dirichlet={"boundary": rz.Unknown(edge)},
    )


def dense_moments(problem, points, noise):
    """Mean and sd of the state at points, from its derivative by all coordinates at once."""
    at_points = rz.fem.point_operator(problem.forward.space, points)

    def both(coordinates):
        state = problem.state(coordinates)
        return jnp.concatenate([problem.operator @ state, at_points @ state])

    origin = jnp.zeros(problem.num_coordinates)
    start = np.asarray(jax.jit(both)(origin))
    slopes = np.asarray(jax.jit(jax.jacfwd(both))(origin))
    count = len(problem.observed)
    joint = slopes @ slopes.T
    data = joint[:count, :count] + noise**2 * np.eye(count)
    gain = np.linalg.solve(data, joint[:count, count:]).T
    mean = start[count:] + gain @ (np.asarray(problem.observed) - start[:count])
    covariance = joint[count:, count:] - gain @ joint[:count, count:]
    evidence = scipy.stats.multivariate_normal(start[:count], data).logpdf(problem.observed)
    return mean, np.sqrt(np.diag(covariance)), evidence


@pytest.mark.parametrize(
    "count",
    [pytest.param(9, id="fewer sensors"), pytest.param(30, id="more")],
)
@pytest.mark.slow  # quickly, draws that scatter as the moments say, and densities
def test_without_other_unknowns_moments_are_those_of_dense_algebra(count):
    sensors = np.random.default_rng(3).uniform((0.1, 0.1), (1.3, 0.9), (count, 2))
    problem = problem_with(sensors=sensors, values=2 + sensors[:, 0])
    mean, sd, evidence = dense_moments(problem, ELSEWHERE, 0.05)
    posterior = pair("laplace(marginal)", num_draws=2).run(problem)
    found = rz.inference.conditional_moments(posterior, ELSEWHERE)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.sd, sd, rtol=1e-7)
    np.testing.assert_allclose(found.measured_sd, np.hypot(sd, 0.05), rtol=1e-7)
    np.testing.assert_allclose(posterior.history["log_density"][0], evidence, rtol=1e-9)


def test_moments_of_an_unknown_are_those_of_dense_algebra():
    problem = linear_problem()
    posterior = pair("laplace(marginal)", num_draws=2).run(problem)
    found = rz.inference.conditional_moments(posterior, "w")
    matrix, offset = response()
    covariance = np.linalg.inv(np.eye(3) + matrix.T @ matrix / NOISE**2)
    mean = covariance @ matrix.T @ (np.asarray(problem.observed) - offset) / NOISE**2
    np.testing.assert_allclose(found.mean, PRIOR_MEAN + PRIOR_SD * mean, rtol=1e-7)
    np.testing.assert_allclose(found.sd, PRIOR_SD * np.sqrt(np.diag(covariance)), rtol=1e-7)
    np.testing.assert_allclose(found.measured_sd, found.sd)
    with pytest.raises(RieszError, match="'v' is no unknown of the problem: it has w"):
        rz.inference.conditional_moments(posterior, "v")


@pytest.mark.slow
def test_draws_of_a_field_scatter_as_its_moments_say():
    posterior = pair("laplace(marginal)", num_draws=4000).run(problem_with())
    found, drawn = (
        rz.inference.conditional_moments(posterior, "f"),
        np.asarray(posterior.values("f")),
    )
    assert found.mean.shape == (MESH.num_nodes,)
    assert np.abs((found.mean - drawn.mean(axis=0)) / found.sd).max() < 5 / np.sqrt(4000)
    np.testing.assert_allclose(drawn.std(axis=0) / found.sd, 1.0, atol=5 / np.sqrt(2 * 4000))


@pytest.mark.slow
def test_some_right_hand_sides_at_a_time_give_the_same_gradient(with_noise, monkeypatch):
    problem, _, _ = with_noise
    density = MarginalDensity(
        problem, linear_parts(problem), SteadyPoints(problem.operator, SparseLU())
    )
    place = jnp.array([0.4])
    together = jax.value_and_grad(density.__call__)(place)
    monkeypatch.setattr(points_module, "NUMBERS_AT_ONCE", 3 * MESH.num_nodes)
    in_parts = jax.value_and_grad(density.__call__)(place)
    for found, expected in zip(in_parts, together, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.slow
def test_draws_scatter_as_the_moments_say():
    problem = problem_with()
    posterior = rz.fit(problem, pair("laplace(marginal)", num_draws=2000), progress=False)
    found = rz.predict(posterior, "u", ELSEWHERE, num_draws=2000, quantiles=())
    mean, sd, _ = dense_moments(problem, ELSEWHERE, 0.05)
    assert np.abs((found.mean - mean) / sd).max() < 4 / np.sqrt(2000)
    np.testing.assert_allclose(found.sd / sd, 1.0, atol=4 / np.sqrt(2 * 2000))


@pytest.fixture(scope="module")
def rich():
    """With a diffusivity, a velocity, unknown scales and noise that cannot be integrated out."""
    with pytest.warns(UserWarning, match="only their ratios are identified"):
        return problem_with(
            {
                "a": rz.priors.LogGP(rz.priors.Matern52(0.6, 0.4), 4),
                "velocity": dist.Normal(jnp.zeros(2), 1.0),
                "noise": dist.LogNormal(-3.0, 0.5),
            },
            equation=rz.diffusion("a") + rz.advection("velocity") - rz.source("f"),
            likelihood=rz.Gaussian("noise"),
            source=rz.SPDEField(2.0, 0.4, learned=SCALES),
        )


def test_what_is_linear_is_found(rich):
    names = rich.latents.coordinate_names()
    others = [names[i] for i in np.asarray(linear_parts(rich).others)]
    assert others == [
        *("f[log_sd]", "f[log_length]", "a[0]", "a[1]", "a[2]", "a[3]"),
        *("velocity[0]", "velocity[1]", "noise"),
    ]


@pytest.mark.slow  # quickly, against the host's slope below
def test_the_marginal_density_has_the_gradient_it_claims(rich):
    density = MarginalDensity(rich, linear_parts(rich), SteadyPoints(rich.operator, SparseLU()))
    place = 0.3 * jax.random.normal(jax.random.key(1), (9,))
    assert taylor_test(eqx.filter_jit(density), place).passed


@pytest.mark.slow
def test_given_the_others_the_density_is_that_of_all_unknowns_integrated(rich):
    """p(h, y) = p(h, c, y) / p(c | h, y) for any c."""
    parts = linear_parts(rich)
    others = 0.3 * jax.random.normal(jax.random.key(2), (9,))
    system = MarginalDensity(rich, parts, SteadyPoints(rich.operator, SparseLU())).system(others)
    precision = np.eye(len(parts.linear)) + np.asarray(system.responses.T @ system.responses)
    given = scipy.stats.multivariate_normal(
        np.asarray(system.mean), cov=scipy.stats.Covariance.from_precision(precision)
    )
    linear = jax.random.normal(jax.random.key(3), parts.linear.shape)
    joint = rich.log_prob(parts.together(linear, others))
    expected = float(joint) - given.logpdf(np.asarray(linear))
    found = MarginalDensity(rich, parts, SteadyPoints(rich.operator, SparseLU()))(others)
    np.testing.assert_allclose(float(found), expected, rtol=1e-9)


@pytest.mark.slow  # quickly: posteriors in closed form
def test_where_no_unknown_changes_the_matrix_the_host_has_density_and_slope_of_the_programs():
    local = LocalEffect(SENSORS, sd=0.3, length_scale=0.2)
    problem = problem_with(
        {"noise": dist.HalfNormal(0.5), "local": local.prior()},
        source=rz.GP(rz.priors.Matern52(0.4, 2.0), 8, learned=SCALES, at_nodes=True),
        likelihood=rz.observe.WithEffects(rz.Gaussian("noise"), local=local),
        learned=SCALES,
    )
    parts = linear_parts(problem)
    at = at_points(problem, problem.operator, SparseLU())
    assert isinstance(at, TabulatedPoints)
    model = data_model(problem, parts, at)
    density = MarginalDensity(problem, parts, SteadyPoints(problem.operator, SparseLU()))
    others = np.random.default_rng(0).normal(size=7) / 2
    value, slope = cost_and_gradient(jnp.asarray(others), density)
    found = model.cost(others)
    np.testing.assert_allclose(found[0], value, rtol=1e-9)
    np.testing.assert_allclose(found[1], slope, rtol=1e-6, atol=1e-7)
    check_left_out(model.system(others))


def check_left_out(system):
    """Against the rule of conditioning, with each datum left out by hand, in any order."""
    data = system.responses @ system.responses.T + np.diag(system.noise_sd**2)
    order = np.random.default_rng(1).permutation(len(data))
    found = system.leave_out(list(order[:, None]))
    for i, log_density in zip(order, found.logs, strict=True):
        rest = np.delete(np.arange(len(data)), i)
        gain = np.linalg.solve(data[np.ix_(rest, rest)], data[rest, i])
        gap, variance = (
            system.misfit[i] - gain @ system.misfit[rest],
            data[i, i] - gain @ data[rest, i],
        )
        np.testing.assert_allclose([found.gaps[i], found.sds[i] ** 2], [gap, variance])
        assert log_density == pytest.approx(scipy.stats.norm.logpdf(gap, 0, np.sqrt(variance)))


def test_a_matrix_with_unknowns_in_it_is_solved_with_for_each_of_their_values(rich):
    at = at_points(rich, rich.operator, SparseLU())
    assert isinstance(at, SteadyPoints)
    assert data_model(rich, linear_parts(rich), at) is None


@pytest.fixture(scope="module")
def with_noise():
    """One unknown cannot be integrated out; its log-density on a grid."""
    problem = problem_with({"noise": dist.LogNormal(-3.0, 0.5)}, likelihood=rz.Gaussian("noise"))
    marginal = MarginalDensity(
        problem, linear_parts(problem), SteadyPoints(problem.operator, SparseLU())
    )
    density = eqx.filter_jit(marginal)
    grid = np.linspace(-5, 5, 201)
    return problem, grid, np.array([float(density(jnp.array([h]))) for h in grid])


def others_of(posterior):
    where = linear_parts(posterior.problem).others
    return np.asarray(posterior.distribution.all()[:, where])[:, 0]


@pytest.mark.slow
def test_weighed_draws_about_the_mode_have_the_moments_that_quadrature_finds(with_noise):
    problem, grid, logs = with_noise
    density, parts = Marginal(num_draws=300, num_values=300), linear_parts(problem)
    at = at_points(problem, problem.operator, SparseLU())
    start = jnp.zeros(len(parts.others))
    search = density.search_from(start, MarginalDensity(problem, parts, at), None, Work())
    spread, near = search.spread(), density.target(search).near  # where other methods begin
    np.testing.assert_allclose(near.mean, search.mode)
    np.testing.assert_allclose(near.covariance(), spread.lengths[:, None] ** 2, rtol=1e-9)
    found = density.likely_values(search, LAPLACE, Work())
    weights = np.exp(logs - logs.max())
    mean = np.average(grid, weights=weights)
    sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    values = np.asarray(found.values).ravel()
    assert abs(values.mean() - mean) < 0.03 * sd
    np.testing.assert_allclose(values.std(), sd, rtol=0.03)
    assert found.history["k_hat"] < 0.7


def test_a_density_that_is_no_gaussian_is_drawn_from_by_weights_or_told():
    def skewed(place):  # a gamma distribution's logarithm: mean digamma(2), variance trigamma(2)
        return 2 * place[0] - np.exp(place[0])

    spread = Spread(np.eye(1), np.array([2**-0.5]), ())
    sample, values = sample_hyperparameters(skewed, spread, np.array([np.log(2.0)]), 400, seed=0)
    assert abs(values.mean() - scipy.special.digamma(2)) < 0.02
    np.testing.assert_allclose(values.var(), scipy.special.polygamma(1, 2), rtol=0.06)
    assert sample.notes("hyper_k_hat") == ()
    narrow = Spread(np.eye(1), np.array([0.1]), ())
    told, _ = sample_hyperparameters(skewed, narrow, np.array([np.log(2.0)]), 400, seed=0)
    assert told.notes("hyper_k_hat") == (Note("hyper_k_hat", value=told.k_hat, limit=0.7),)


@pytest.mark.slow
def test_scales_that_ten_sensors_hardly_tell_have_the_moments_of_their_density():
    """A source with unknown sd and length, and unknown noise: far from normal all three."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0.1, 0.9, (10, 2))
    scales = rz.priors.LearnedScales(1.0, 0.5)
    source = rz.GP(rz.priors.Matern52(0.3, 5.0), 30, learned=scales, at_nodes=True)
    noise = dist.LogNormal(np.log(0.02), 1.0)

    def posed(values):
        return rz.inverse_problem(
            rz.rectangle((12, 12)),
            rz.diffusion(1.0) - rz.source("f"),
            latents={"f": source, "noise": noise},
            dirichlet={"boundary": 0.0},
            observations=rz.observations(points, values),
            likelihood=rz.Gaussian("noise"),
        )

    blank = posed(np.zeros(10))
    truth = rng.normal(size=blank.num_coordinates)
    truth[[0, 1, -1]] = 0
    clean = np.asarray(blank.operator @ blank.state(jnp.asarray(truth)))
    problem = posed(clean + 0.02 * rng.normal(size=10))
    parts = linear_parts(problem)
    at = point_map_at_sensors(problem)
    model = data_model(problem, parts, at)
    mean, sd = np.zeros(3), np.full(3, 2.0)
    for _ in range(3):  # importance sampling, each time from where the one before found it
        places = mean + 1.3 * sd * rng.standard_t(5, (4000, 3))
        logs = np.array([model.log_density(place) for place in places])
        logs -= scipy.stats.t.logpdf((places - mean) / (1.3 * sd), 5).sum(axis=1)
        weights = np.exp(logs - logs.max())
        mean = np.average(places, axis=0, weights=weights)
        sd = np.sqrt(np.average((places - mean) ** 2, axis=0, weights=weights))
    assert weights.sum() ** 2 / (weights**2).sum() > 1000
    density, exact = Marginal(num_draws=800, num_values=800), MarginalDensity(problem, parts, at)
    for seed in range(3):
        search = density.search_from(jnp.zeros(3), exact, model, Work(seed=seed))
        found = np.asarray(density.likely_values(search, LAPLACE, Work(seed=seed)).values)[0]
        np.testing.assert_allclose((found.mean(axis=0) - mean) / sd, 0.0, atol=0.1)
        np.testing.assert_allclose(found.std(axis=0) / sd, 1.0, atol=0.1)


@pytest.mark.slow
def test_nuts_has_the_moments_that_quadrature_finds(with_noise):
    problem, grid, logs = with_noise
    engine = pair("mcmc(marginal)", kernel="nuts", num_samples=1000)
    found = others_of(engine.run(problem))
    weights = np.exp(logs - logs.max())
    mean = np.average(grid, weights=weights)
    sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    assert abs(found.mean() - mean) < 0.2 * sd
    np.testing.assert_allclose(found.std() / sd, 1.0, atol=0.2)


@pytest.mark.slow
def test_at_the_mode_all_draws_share_the_other_unknowns(with_noise):
    problem, _, _ = with_noise
    posterior = rz.fit(
        problem, pair("laplace(marginal)", at_mode=True, num_draws=5), progress=False
    )
    noise = np.asarray(posterior.values("noise"))
    np.testing.assert_array_equal(noise, noise[0])
    (mode,) = np.asarray(posterior.history["mode"])
    np.testing.assert_allclose(noise[0], np.exp(-3.0 + 0.5 * mode), rtol=1e-12)


@pytest.mark.slow
def test_with_nothing_to_sample_nuts_gives_as_many_draws_as_asked_for():
    posterior = rz.fit(
        problem_with(), pair("mcmc(marginal)", kernel="nuts", num_draws=7), progress=False
    )
    assert posterior.distribution.num_draws == 7


@pytest.mark.slow
def test_moments_over_several_values_of_the_others_are_those_of_the_draws(with_noise):
    problem, _, _ = with_noise
    engine = pair("laplace(marginal)", num_draws=4000, num_values=8)
    posterior = engine.run(problem)
    found = rz.inference.conditional_moments(posterior, ELSEWHERE)
    drawn = rz.predict(posterior, "u", ELSEWHERE, num_draws=4000, quantiles=())
    assert np.abs((found.mean - drawn.mean) / found.sd).max() < 4 / np.sqrt(4000)
    np.testing.assert_allclose(found.sd / drawn.sd, 1.0, atol=4 / np.sqrt(2 * 4000))
    shares = rz.inference.conditional_mixture(posterior, ELSEWHERE).shares
    np.testing.assert_allclose(shares, 1 / 8)


@pytest.mark.slow
def test_moments_of_another_density_are_refused():
    posterior = pair("laplace(marginal)", num_draws=2).run(problem_with())
    other = dataclasses.replace(posterior, engine="mcmc")
    with pytest.raises(RieszError, match="the posterior is by mcmc"):
        rz.inference.conditional_moments(other, ELSEWHERE)


def test_what_the_noise_reads_is_not_integrated_out_even_where_it_is_flat():
    problem = problem_with(
        {"s": dist.Normal(0.0, 1.0)},
        equation=rz.diffusion(1.3) - rz.source("f") - rz.source("s"),
        likelihood=rz.Gaussian(lambda z: jnp.maximum(0.05, z["s"] - 3.0)),
    )
    names = problem.latents.coordinate_names()
    assert [names[i] for i in np.asarray(linear_parts(problem).others)] == ["s"]


class Quadratic(AbstractDensity):
    """The log-density of a Gaussian with this precision."""

    precision: Float[Array, "n n"]

    def log_likelihood(self, coordinates):
        return -0.5 * (coordinates @ self.precision @ coordinates - coordinates @ coordinates)


def test_the_spread_about_a_mode_is_the_inverse_of_the_curvature():
    precision = jnp.asarray([[3.0, 1.0], [1.0, 2.0]])
    spread = gaussian_spread(gradient_of(Quadratic(precision)), jnp.zeros(2))
    covariance = (spread.axes * spread.lengths**2) @ spread.axes.T
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-6)
    assert spread.notes == ()


def test_flat_directions_are_told_and_kept_within_the_prior():
    spread = gaussian_spread(
        gradient_of(Quadratic(jnp.diag(jnp.array([1e-5, -2.0, 4.0])))), jnp.zeros(3)
    )
    np.testing.assert_allclose(np.sort(spread.lengths), [0.5, 2.0, 2.0], rtol=1e-6)
    assert spread.notes == (Note("flat_directions", count=2, total=3),)


@pytest.mark.slow
def test_auto_takes_it_where_all_unknowns_are_linear():
    problem = problem_with()
    posterior = rz.fit(problem, progress=False)
    assert posterior.engine == "laplace(marginal)"
    assert Note("all_linear", size=16) in [note.values.get("reason") for note in posterior.notes]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"likelihood": rz.StudentT(0.05)}, "needs normal noise; it is StudentT"),
        (
            {"equation": rz.diffusion(lambda x, z, u, grad_u: 1 + u**2) - rz.source("f")},
            "affine in none of the unknowns",
        ),
    ],
)
def test_what_is_not_linear_and_normal_is_refused(changes, message):
    with pytest.raises(RieszError, match=message):
        rz.fit(problem_with(**changes), "laplace(marginal)")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: pair("laplace(marginal)", at_mode="guess"), "at_mode of marginal is 'guess'"),
        (lambda p: pair("laplace(marginal)", start=jnp.zeros(3)).run(p), "start has shape"),
    ],
)
def test_wrong_settings_are_told(call, message):
    with pytest.raises(RieszError, match=message):
        call(problem_with())


@pytest.mark.slow
def test_chains_over_the_others_that_are_stopped_go_on_to_the_same_draws(with_noise, tmp_path):
    problem, _, _ = with_noise
    engine = pair("mcmc(marginal)", kernel="nuts", num_warmup=60, num_samples=60)

    def fitted(checkpoint=NO_CHECKPOINT):
        return engine.run(problem, checkpoint=checkpoint)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains as short as these disagree
        again, stops = stopped_and_resumed(fitted, tmp_path / "checkpoint", blocks=2)
        check_same(again, fitted())
    assert stops > 0


@pytest.mark.parametrize(
    "source",
    [
        rz.GP(rz.priors.Matern52(0.4, 2.0), 8, learned=SCALES, at_nodes=True),
        pytest.param(rz.SPDEField(2.0, 0.4, learned=SCALES), marks=pytest.mark.slow),
        pytest.param(
            rz.GP(rz.priors.Matern52(0.4, 2.0), 8, learned=SCALES), marks=pytest.mark.slow
        ),
    ],
)
def test_what_is_held_is_what_the_problem_holds(source):
    """Values and slopes by way of the parts, and by way of all coordinates."""
    problem = problem_with(
        {"a": dist.LogNormal(0.0, 0.3)},
        equation=rz.diffusion(1.3) + rz.reaction("a") - rz.source("f"),
        source=source,
    )
    parts = linear_parts(problem)
    rng = np.random.default_rng(0)
    linear, others = jnp.asarray(rng.normal(size=len(parts.linear))), jnp.array([0.3, -0.2, 0.1])

    def by_parts(linear, others):
        return parts.z(problem.latents, linear, others)

    def by_all(linear, others):
        return problem.z(parts.together(linear, others))

    assert "a" not in parts.names
    assert "f" in parts.names
    found, wanted = (
        jax.jit(jax.jacfwd(way, argnums=(0, 1)))(linear, others) for way in (by_parts, by_all)
    )
    for name in found:
        for slope, expected in zip(*map(jax.tree.leaves, (found[name], wanted[name])), strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)


def test_the_summary_says_what_is_exact():
    row = {"unknown": "f", "mean": 0.0, "sd": 1.0, "q05": -1.6, "q50": 0.0, "q95": 1.6}
    text = str(Summary("laplace(marginal)", (row,), 9, 0.9, 1.0, ()))
    assert "by exact solves; unknowns that are not integrated out, if any," in text
    assert "not checked" not in text


def test_values_for_which_the_data_have_no_covariance_are_left_out_of_draws():
    rows = np.array([[1.0, 0.0], [1.0, 0.0]])  # two data that only noise tells apart
    source = Component("f", lambda scales: rows, np.arange(0), np.arange(2))
    noise = (lambda given: np.full(2, np.exp(given[0])), np.arange(1))
    model = DataModel((source,), np.array([1.0, 1.1]), *noise, 1, 2)
    parts = Parts(jnp.array([1, 2]), jnp.array([0]), jnp.array([0, 1]), jnp.array([], int), ("f",))
    found = draw_on_host(model.system, parts, np.array([[0.0], [-1e3], [0.5]]), 4, seed=0)
    assert found.shape == (2, 4, 3)
    np.testing.assert_array_equal(found[:, 0, 0], [0.0, 0.5])
    with pytest.raises(RieszError, match="2 of 3 values of scales and noise leave a covariance"):
        draw_on_host(model.system, parts, np.array([[0.0], [-1e3], [-2e3]]), 4, seed=0)
