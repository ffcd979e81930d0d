"""A posterior's moments, predictions and summary against Gaussian formulas."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.linear_gaussian import (
    NOISE,
    PRIOR_MEAN,
    PRIOR_SD,
    exact_posterior,
    known_posterior,
    linear_problem,
    response,
)

from riesz.diagnose import arviz as arviz_adapter
from riesz.diagnose.arviz import to_arviz
from riesz.diagnose.summary import summary
from riesz.errors import MeshError, RieszError
from riesz.fem.terms.weakform import diffusion, reaction, source
from riesz.mesh.grids import grid
from riesz.mesh.shapes import box, disc, l_shape, rectangle
from riesz.observe.likelihood import Censored, Gaussian
from riesz.observe.observations import observations
from riesz.posterior.family import EmpiricalDraws, full_rank
from riesz.posterior.posterior import AbstractStateMap, ExactStates, Posterior
from riesz.prediction import sampling, statistics
from riesz.prediction.predict import predict
from riesz.prediction.quantity import BudgetTerm, Outflow, has_flux
from riesz.prediction.statistics import collect
from riesz.priors.fields import AbstractField, AbstractFieldLatent
from riesz.problem.posing import inverse_problem

NUM_DRAWS = 300


def within(found, exact, sd, num_draws):
    """Whether a Monte-Carlo mean is right up to four of its errors."""
    return (np.abs(found - exact) < 4 * sd / np.sqrt(num_draws)).all()


def test_moments_of_the_coordinates_are_those_of_the_gaussian():
    mean, covariance = known_posterior()
    np.testing.assert_allclose(exact_posterior().coordinate_mean(), mean)
    np.testing.assert_allclose(exact_posterior().coordinate_covariance(), covariance)


def test_unknowns_are_told_in_their_units():
    posterior, (mean, covariance) = exact_posterior(), known_posterior()
    centre, sd = PRIOR_MEAN + PRIOR_SD * mean, PRIOR_SD * np.sqrt(np.diag(covariance))
    assert within(posterior.mean("w"), centre, sd, 4000)
    np.testing.assert_allclose(posterior.sd("w"), sd, rtol=0.05)
    low, middle, high = posterior.quantiles("w")
    np.testing.assert_allclose((high - low) / 2, 1.645 * sd, rtol=0.08)
    assert within(middle, centre, 1.25 * sd, 4000)


@pytest.mark.slow
def test_draws_of_a_sampler_are_used_once_each():
    draws = jr.normal(jr.key(0), (2, 50, 3))
    posterior = Posterior(linear_problem(), EmpiricalDraws(draws), ExactStates(), engine="nuts")
    chosen = posterior.sample(jr.key(1), 100)
    np.testing.assert_array_equal(np.sort(chosen, axis=0), np.sort(draws.reshape(100, 3), axis=0))
    assert posterior.sample(jr.key(1), 150).shape == (150, 3)
    assert posterior.values("w").shape == (100, 3)
    assert posterior.values("w", num_draws=1000).shape == (100, 3)
    np.testing.assert_allclose(posterior.mean("w", num_draws=1000), posterior.mean("w"))
    np.testing.assert_allclose(posterior.coordinate_mean(), draws.mean(axis=(0, 1)))
    np.testing.assert_allclose(
        posterior.coordinate_covariance(), np.cov(draws.reshape(100, 3).T), rtol=1e-10
    )


@pytest.fixture(scope="module")
def at_sensors():
    points = linear_problem().observations.points
    posterior = exact_posterior(ExactStates())
    return predict(posterior, "u", points, num_draws=NUM_DRAWS, exceed=(0.0, 1e9))


def test_the_state_has_the_mean_and_sd_of_the_linear_map(at_sensors):
    (matrix, offset), (mean, covariance) = response(), known_posterior()
    exact = offset + matrix @ mean
    sd = np.sqrt(np.einsum("si,ij,sj->s", matrix, covariance, matrix))
    assert within(at_sensors.mean, exact, sd, NUM_DRAWS)
    np.testing.assert_allclose(at_sensors.sd, sd, rtol=4 / np.sqrt(2 * NUM_DRAWS))
    np.testing.assert_allclose(at_sensors.quantiles[0.5], exact, atol=0.4 * sd.max())
    above = 0.5 * (1 + np.vectorize(jax.scipy.special.erf)(exact / sd / np.sqrt(2)))
    assert (abs(at_sensors.exceedance[0.0] - above) < 0.12).all()
    assert not at_sensors.exceedance[1e9].any()


def test_new_measurements_scatter_by_state_and_noise(at_sensors):
    measured = predict(
        exact_posterior(), "measurement", num_draws=NUM_DRAWS, quantiles=(0.025, 0.975)
    )
    total = np.sqrt(at_sensors.sd**2 + NOISE**2)
    np.testing.assert_allclose(measured.sd, total, rtol=0.2)
    width = measured.quantiles[0.975] - measured.quantiles[0.025]
    np.testing.assert_allclose(width, 2 * 1.96 * total, rtol=0.25)


def test_chunks_do_not_change_exact_predictions(at_sensors, monkeypatch):
    problem = linear_problem()
    monkeypatch.setattr(sampling, "CHUNK_NUMBERS", 70 * problem.forward.space.num_dofs)
    again = predict(exact_posterior(), "u", problem.observations.points, num_draws=NUM_DRAWS)
    np.testing.assert_allclose(again.mean, at_sensors.mean, rtol=1e-12)
    np.testing.assert_allclose(again.sd, at_sensors.sd, rtol=1e-10)
    np.testing.assert_allclose(again.quantiles[0.95], at_sensors.quantiles[0.95], rtol=1e-12)


def test_statistics_of_chunks_are_those_of_all_draws():
    draws = 1e6 + np.random.default_rng(0).normal(size=(103, 4))
    found = collect(iter(np.array_split(draws, 7)), 103, (0.1, 0.9), (1e6,))
    np.testing.assert_allclose(found.mean, draws.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.sd, draws.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(found.quantiles[0.9], np.quantile(draws, 0.9, axis=0))
    np.testing.assert_allclose(found.exceedance[1e6], (draws > 1e6).mean(axis=0))


class Ramp(AbstractField):
    """a + b x."""

    nodes: np.ndarray

    def gather(self, domain):
        return ()

    def at(self, local, point, weights):
        return weights[0] + weights[1] * point.x[0]

    def nodal(self, weights):
        return weights[0] + weights[1] * jnp.asarray(self.nodes[:, 0])


class RampPrior(AbstractFieldLatent):
    field: Ramp

    @property
    def num_coordinates(self):
        return 2

    def value(self, coordinates):
        return jnp.array([3.0, 1.0]) + 0.1 * coordinates

    def describe(self):
        return "a ramp"


class LinearStates(AbstractStateMap):
    """u = 2x + y (- z) whatever the unknowns: cheap, with known gradients."""

    def __call__(self, problem, key, coordinates):
        mesh = problem.forward.space.mesh
        state = jnp.asarray(mesh.nodes @ np.array([2.0, 1.0, -1.0])[: mesh.dim])
        return jnp.tile(state, (len(coordinates), 1))


class NoStates(AbstractStateMap):
    def __call__(self, problem, key, coordinates):
        raise AssertionError("a state was asked for")


@pytest.fixture(scope="module")
def ramp():
    """A posterior over a diffusivity that grows along x, with a state known everywhere."""
    mesh = rectangle((4, 4))
    problem = inverse_problem(
        mesh,
        diffusion("a") - source("f"),
        latents={"a": RampPrior(Ramp(mesh.nodes)), "f": dist.Normal(2.0, 0.5)},
        observations=observations([[0.2, 0.2], [0.6, 0.7]], [0.6, 1.9]),
        likelihood=Gaussian(jnp.array([0.1, 0.2])),
        dirichlet={"left": 0.0},
    )
    return Posterior(problem, full_rank(3, jnp.float64), LinearStates(), engine="test")


def test_a_field_is_predicted_at_points_and_nodes(ramp):
    points = np.array([[0.1, 0.3], [0.77, 0.9]])
    found = predict(ramp, "a", points, num_draws=NUM_DRAWS)
    sd = 0.1 * np.sqrt(1 + points[:, 0] ** 2)
    assert within(found.mean, 3.0 + points[:, 0], sd, NUM_DRAWS)
    np.testing.assert_allclose(found.sd, sd, rtol=0.15)
    assert predict(ramp, "a", num_draws=3).mean.shape == (25,)


def test_numbers_are_predicted_as_they_are_or_spread_over_a_grid(ramp):
    plain = predict(ramp, "f", num_draws=NUM_DRAWS)
    assert plain.mean.shape == ()
    assert within(plain.mean, 2.0, 0.5, NUM_DRAWS)
    raster = grid(ramp.problem.forward.space.mesh, (3, 2))
    np.testing.assert_allclose(
        predict(ramp, "f", raster, num_draws=NUM_DRAWS).mean, np.full((2, 3), plain.mean)
    )


def test_fluxes_follow_darcy_s_law(ramp):
    """With the gradient (2, 1) and the diffusivity 3 + x on average."""
    points = np.array([[0.1, 0.3], [0.77, 0.9]])
    found = predict(ramp, "flux", points, num_draws=NUM_DRAWS)
    exact = -(3.0 + points[:, :1]) * np.array([[2.0, 1.0]])
    np.testing.assert_allclose(found.mean, exact, rtol=0.02)
    through = predict(ramp, Outflow("right"), num_draws=NUM_DRAWS)
    np.testing.assert_allclose(through.mean, -8.0, rtol=0.02)
    assert predict(ramp, "flux", num_draws=2).mean.shape == (32, 2)


def test_a_budget_line_is_predicted_and_wrong_names_are_listed(ramp):
    found = predict(ramp, BudgetTerm("source"), num_draws=NUM_DRAWS)
    assert within(found.mean, 2.0, 0.5, NUM_DRAWS)  # the unit square times f
    with pytest.raises(
        RieszError, match="no line 'sources': it has 'source', 'prescribed on left'"
    ):
        predict(ramp, BudgetTerm("sources"), num_draws=2)


def test_any_function_of_problem_state_and_z_can_be_predicted(ramp):
    found = predict(ramp, lambda problem, state, z: z["f"] * jnp.max(state), num_draws=NUM_DRAWS)
    assert within(found.mean, 6.0, 1.5, NUM_DRAWS)


def test_draws_of_fields_states_and_data_are_plain_arrays(ramp):
    """Those of one seed belong together: the flux through the column is that of the source."""
    nodes = ramp.problem.forward.space.mesh.nodes
    of_field = np.asarray(ramp.values("a", num_draws=5))
    assert of_field.shape == (5, len(nodes))
    np.testing.assert_allclose(ramp.mean("a", num_draws=5), of_field.mean(axis=0))
    settings = {"num_draws": 5, "keep_draws": True}
    drawn = {name: predict(ramp, name, **settings).draws for name in ("a", "f", "u")}
    assert {name: own.shape[1:] for name, own in drawn.items()} == {
        "a": (len(nodes),),
        "f": (),
        "u": (len(nodes),),
    }
    told = predict(ramp, "u", **settings)
    np.testing.assert_array_equal(told.draws, drawn["u"])
    np.testing.assert_allclose(told.draws.mean(axis=0), told.mean, rtol=1e-12)
    assert predict(ramp, "u", num_draws=5).draws is None
    on_grid = predict(ramp, "u", grid(ramp.problem.forward.space.mesh, (4, 3)), **settings)
    assert on_grid.draws.shape == (5, *on_grid.mean.shape)
    data = predict(ramp, "measurement", nodes[:3], **settings)
    assert data.draws.shape == (5, 3)
    np.testing.assert_allclose(data.draws.mean(axis=0), data.mean, rtol=1e-12)


def test_nothing_is_solved_for_what_does_not_read_the_state(ramp):
    unsolved = dataclasses.replace(ramp, states=NoStates())
    points = np.array([[0.1, 0.3], [0.77, 0.9]])
    for quantity, at in (("a", points), ("f", None)):
        found = predict(unsolved, quantity, at, num_draws=NUM_DRAWS).mean
        np.testing.assert_array_equal(found, predict(ramp, quantity, at, num_draws=NUM_DRAWS).mean)
    with pytest.raises(AssertionError, match="a state was asked for"):
        predict(unsolved, "flux", points, num_draws=2)


def test_predictions_are_made_in_space_at_points_and_on_grids():
    mesh = box((2, 2, 2))
    problem = inverse_problem(
        mesh,
        diffusion("a") - source(1.0),
        latents={"a": dist.Normal(2.0, 0.1)},
        observations=observations([[0.2, 0.2, 0.4]], [0.2]),
        likelihood=Gaussian(0.1),
        dirichlet={"left": 0.0},
    )
    posterior = Posterior(problem, full_rank(1, jnp.float64), LinearStates(), engine="test")
    points = np.array([[0.1, 0.3, 0.9], [0.77, 0.9, 0.2]])
    slope = np.array([2.0, 1.0, -1.0])
    np.testing.assert_allclose(predict(posterior, "u", points, num_draws=2).mean, points @ slope)
    raster = grid(mesh, (4, 3, 2))
    found = predict(posterior, "u", raster, num_draws=2).mean
    assert found.shape == (2, 3, 4)
    np.testing.assert_allclose(found[raster.inside], raster.points @ slope)
    flux = predict(posterior, "flux", points, num_draws=NUM_DRAWS).mean
    np.testing.assert_allclose(flux, np.tile(-2.0 * slope, (2, 1)), rtol=0.02)


def test_a_grid_covers_the_box_and_is_nan_outside_the_domain():
    mesh = l_shape(4)
    raster = grid(mesh, (6, 4))
    values = raster.fill(raster.points.sum(axis=1))
    assert values.shape == (4, 6)
    x, y = np.meshgrid(*raster.axes)
    np.testing.assert_allclose(values[raster.inside], (x + y)[raster.inside])
    assert np.isnan(values).sum() == 6  # a quarter of the box
    low, high = mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)
    np.testing.assert_allclose(raster.axes[0][0] - raster.cell[0] / 2, low[0])
    np.testing.assert_allclose(raster.axes[1][-1] + raster.cell[1] / 2, high[1])


def test_a_grid_by_cell_size_starts_at_the_lowest_corner():
    raster = grid(rectangle((2, 2)), cell=0.3)
    assert raster.inside.shape == (4, 4)
    np.testing.assert_allclose(raster.axes[0], [0.15, 0.45, 0.75, 1.05])
    assert not raster.inside[-1].any()
    assert grid(rectangle((2, 2)), cell=0.1).inside.shape == (10, 10)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, "either by its shape"),
        ({"shape": (3,)}, "give 2 positive numbers"),
        ({"shape": (3, 0)}, "give 2 positive numbers"),
        ({"cell": -1.0}, "give a positive length"),
        ({"cell": 100.0}, "take smaller cells"),
    ],
)
def test_impossible_grids_are_refused(choice, message):
    with pytest.raises(RieszError, match=message):
        grid(disc(2), **choice)


def test_impossible_predictions_are_refused(ramp, monkeypatch):
    with pytest.raises(RieszError, match="no quantity 'b': ask for 'u', 'flux' or"):
        predict(ramp, "b")
    with pytest.raises(RieszError, match="'b' is no unknown of the problem: it has a, f"):
        ramp.sd("b")
    with pytest.raises(MeshError, match="outside the mesh"):
        predict(ramp, "u", [[5.0, 5.0]])
    with pytest.raises(RieszError, match="between 0 and 1"):
        predict(ramp, "u", quantiles=(5.0,))
    with pytest.raises(RieszError, match="leave `at` out"):
        predict(ramp, Outflow("right"), [[0.5, 0.5]])
    with pytest.raises(RieszError, match="between 0 and 1"):
        ramp.quantiles("f", [5.0, 95.0])
    with pytest.raises(RieszError, match="must be finite"):
        predict(ramp, "u", exceed=[np.nan])
    with pytest.raises(RieszError, match="at least 2 draws"):
        predict(ramp, "f", num_draws=1)
    with pytest.raises(RieszError, match="at least 2 draws"):
        ramp.sd("f", num_draws=-1)
    with pytest.raises(RieszError, match="NaN or infinite in 2 of 2 draws"):
        predict(ramp, lambda problem, state, z: jnp.nan * state[0], num_draws=2)
    monkeypatch.setattr(statistics, "KEPT_NUMBERS", 2)
    with pytest.raises(RieszError, match=r"only the mean and sd, quantiles=\(\)"):
        predict(ramp, "f", num_draws=3)
    assert predict(ramp, "f", num_draws=3, quantiles=()).quantiles == {}


@pytest.mark.slow
def test_noise_elsewhere_is_the_median_of_that_of_the_sensors(ramp):
    place, count = [[0.5, 0.5]], 200
    state, new = predict(ramp, "u", place, num_draws=count), predict(ramp, "measurement", place)
    median = np.median(np.asarray(ramp.problem.likelihood.sd))
    np.testing.assert_allclose(new.sd, np.hypot(state.sd, median), rtol=4 / np.sqrt(count))


def test_a_distribution_must_fit_the_problem():
    with pytest.raises(RieszError, match="has 2 coordinates, but the problem has 3"):
        Posterior(linear_problem(), full_rank(2, jnp.float64), ExactStates())


def test_the_summary_tells_units_fit_and_notes():
    told = summary(exact_posterior(), num_draws=NUM_DRAWS)
    mean, covariance = known_posterior()
    sd = PRIOR_SD * np.sqrt(np.diag(covariance))
    means = np.array([row["mean"] for row in told.rows])
    assert within(means, PRIOR_MEAN + PRIOR_SD * mean, sd, NUM_DRAWS)
    matrix, offset = response()
    residuals = (np.asarray(linear_problem().observed) - offset - matrix @ mean) / NOISE
    np.testing.assert_allclose(told.residual_rms, np.sqrt(np.mean(residuals**2)), rtol=0.1)
    assert told.coverage >= 10 / 12
    text = str(told)
    assert text.startswith("posterior by formula\nunknown")
    assert "w[2]" in text
    assert "12 observations" in text
    assert text.endswith("note: made by hand")


def test_values_below_a_limit_count_for_neither_residuals_nor_coverage():
    posterior = exact_posterior()
    # Limits far above what was predicted would be residuals of many noise sd.
    below = np.arange(12) < 3
    observed = posterior.problem.observed + 100.0 * below
    problem = dataclasses.replace(
        posterior.problem, likelihood=Censored(NOISE, below), observed=observed
    )
    told = summary(dataclasses.replace(posterior, problem=problem), num_draws=NUM_DRAWS)
    mean, _ = known_posterior()
    matrix, offset = response()
    residuals = ((np.asarray(observed) - offset - matrix @ mean) / NOISE)[~below]
    np.testing.assert_allclose(told.residual_rms, np.sqrt(np.mean(residuals**2)), rtol=0.1)
    assert told.coverage >= 7 / 9
    assert (told.num_observations, told.num_censored) == (12, 3)
    assert "; without 3 that are only known to lie below a limit" in str(told)
    every = dataclasses.replace(problem, likelihood=Censored(NOISE, below | True))
    told = summary(dataclasses.replace(posterior, problem=every), num_draws=10)
    assert (told.residual_rms, told.coverage) == (None, None)
    assert "12 observations, all below a limit: none has a residual" in str(told)


def test_an_equation_that_moves_nothing_has_no_flux():
    assert has_flux(linear_problem())
    still = inverse_problem(
        rectangle((2, 2)),
        reaction(1.0) - source("f"),
        latents={"f": dist.Normal(0.0, 1.0)},
        observations=observations([[0.5, 0.5]], [1.0]),
        likelihood=Gaussian(NOISE),
    )
    assert not has_flux(still)


def test_a_field_is_summarised_by_its_mean_over_the_nodes(ramp):
    row = summary(ramp, num_draws=NUM_DRAWS).rows[0]
    assert row["unknown"] == "a (mean over the nodes)"
    assert within(row["mean"], 3.5, 0.12, NUM_DRAWS)


def test_arviz_gets_chains_in_physical_units():
    pytest.importorskip("arviz")
    draws = EmpiricalDraws(jr.normal(jr.key(0), (2, 50, 3)))
    history = {"diverging": jnp.zeros((2, 50), bool)}
    told = to_arviz(Posterior(linear_problem(), draws, ExactStates(), history, "nuts"))
    assert told.posterior["w"].shape == (2, 50, 3)
    expected = PRIOR_MEAN + PRIOR_SD * np.asarray(draws.by_chain)
    np.testing.assert_allclose(told.posterior["w"].values, expected)
    assert told.sample_stats["diverging"].shape == (2, 50)
    assert told.observed_data["observed"].shape == (12,)
    problem = linear_problem()
    few = Posterior(problem, EmpiricalDraws(draws.by_chain[:, :4]), ExactStates(), engine="nuts")
    told = to_arviz(few, predictive=True)
    assert told.posterior_predictive["observed"].shape == (2, 4, 12)
    logs = told.log_likelihood["observed"].values
    for chain, draw in ((0, 0), (1, 3)):
        own = few.distribution.by_chain[chain, draw]
        exact = problem.log_likelihood(own, problem.state(own))
        np.testing.assert_allclose(logs[chain, draw].sum(), exact, rtol=1e-9)
    assert to_arviz(exact_posterior(), num_draws=20).posterior["w"].shape == (1, 20, 3)


def test_arviz_of_version_one_takes_one_dictionary(monkeypatch):
    class VersionOne:
        @staticmethod
        def from_dict(data, *, name=None, coords=None):
            return data

    monkeypatch.setattr(arviz_adapter, "import_module", lambda _: VersionOne)
    told = to_arviz(exact_posterior(), num_draws=7)
    assert told["posterior"]["w"].shape == (1, 7, 3)


def test_without_arviz_the_extra_is_named(monkeypatch):
    def missing(_):
        raise ImportError

    monkeypatch.setattr(arviz_adapter, "import_module", missing)
    with pytest.raises(RieszError, match=r"pip install '\.\[arviz\]'"):
        to_arviz(exact_posterior(), num_draws=2)


def test_a_posterior_says_what_it_is():
    assert repr(exact_posterior()) == "Posterior(w by formula, FullRank)"
