"""Inverse problems in time: what is read off a record, and posteriors against closed forms."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.linalg as sla
from tests.pairs import pair

import riesz as rz
from riesz.density.marginal.linear import MarginalDensity
from riesz.density.marginal.points import point_map_at_sensors
from riesz.errors import RieszError
from riesz.posterior.posterior import density_in
from riesz.problem.linearity import linear_parts
from riesz.problem.posing import with_observations

NUM_CELLS, STEP, NOISE = 12, 0.05, 0.02
TIMES = STEP * np.arange(7)
PLACES = np.array([0.25, 0.5, 0.8])
LATENTS = {"start": rz.SPDEField(1.0, 0.3), "f": dist.Normal(0.5, 1.0)}


def data(seed=0):
    """Three places, read at three times, of which one lies between two steps."""
    points, times = np.tile(PLACES, 3), np.repeat([0.1, 0.17, 0.3], 3)
    values = np.random.default_rng(seed).normal(size=9)
    return rz.observations(points, values, times=times)


def heat(observed=None, likelihood=None, **changed):
    given = {
        "latents": LATENTS,
        "dirichlet": {"boundary": 0.0},
        "observations": data() if observed is None else observed,
        "likelihood": rz.Gaussian(NOISE) if likelihood is None else likelihood,
        "times": TIMES,
        "initial": "start",
        "scheme": "euler",
    }
    form = rz.storage(1.0) + rz.diffusion(0.2) - rz.source("f")
    return rz.inverse_problem(rz.interval(NUM_CELLS), form, **(given | changed))


@pytest.fixture(scope="module")
def problem():
    return heat()


def closed_form(problem):
    """Means and covariance of all coordinates, by dense matrices alone."""
    size, h = NUM_CELLS + 1, 1 / NUM_CELLS
    mass, stiffness = np.zeros((2, size, size))
    for cell in range(NUM_CELLS):
        at = np.ix_([cell, cell + 1], [cell, cell + 1])
        mass[at] += h / 6 * np.array([[2, 1], [1, 2]])
        stiffness[at] += 0.2 / h * np.array([[1, -1], [-1, 1]])
    inside = slice(1, -1)
    ones = mass @ np.ones(size)
    matrix = (mass / STEP + stiffness)[inside, inside]
    moved = np.linalg.solve(matrix, mass[inside, inside] / STEP)
    pushed = np.linalg.solve(matrix, ones[inside])
    # What coordinates do to the initial state, one by one, and to the source.
    field = problem.latents.latents["start"]
    count = field.num_coordinates
    origin = np.asarray(field.field.nodal(field.value(jnp.zeros(count))))
    columns = np.stack(
        [np.asarray(field.field.nodal(field.value(row))) - origin for row in jnp.eye(count)], axis=1
    )
    state = np.hstack([columns, np.zeros((size, 1))])[inside]  # the source has the last column
    constant, records = origin[inside], []
    records.append((constant, state))
    for _ in TIMES[1:]:
        constant = moved @ constant + 0.5 * pushed
        state = moved @ state
        state[:, -1] += pushed
        records.append((constant, state))
    rows, offsets = [], []
    for place, time in zip(data().points[:, 0], data().times, strict=True):
        nodes = np.linspace(0, 1, size)
        weights = np.maximum(0, 1 - np.abs(place - nodes) / h)[inside]
        step = min(int(time / STEP + 1e-9), len(TIMES) - 2)
        share = time / STEP - step
        parts = [(1 - share, records[step]), (share, records[step + 1])]
        rows.append(sum(w * (weights @ own[1]) for w, own in parts))
        offsets.append(sum(w * (weights @ own[0]) for w, own in parts))
    design, misfit = np.array(rows), np.asarray(data().values) - np.array(offsets)
    precision = np.eye(count + 1) + design.T @ design / NOISE**2
    covariance = sla.inv(precision)
    return covariance @ design.T @ misfit / NOISE**2, covariance


def test_dates_are_days_on_an_axis_of_dates(problem):
    first = np.datetime64("1980-01-01T00:00:00")
    seconds = (data().times * 86_400).astype("timedelta64[s]")
    observed = rz.observations(data().points, data().values, times=first + seconds)
    np.testing.assert_array_equal(observed.when, first + seconds)
    dated = heat(observed, times=first + (TIMES * 86_400).astype("timedelta64[s]"))
    by_number, by_date = (one.operator.to_scipy().toarray() for one in (problem, dated))
    np.testing.assert_allclose(by_date, by_number, atol=1e-4)  # to the second
    # Programs take the whole problem, its dates included.
    seen = eqx.filter_jit(lambda one, record: one.predict(record, {}))
    record = jnp.arange(float(by_date.shape[1]))
    np.testing.assert_allclose(seen(dated, record), by_date @ record, rtol=1e-12)


def test_conditional_is_the_dense_closed_form(problem):
    parts = linear_parts(problem)
    assert len(parts.others) == 0
    system = MarginalDensity(problem, parts, point_map_at_sensors(problem)).system(jnp.zeros(0))
    mean, covariance = closed_form(problem)
    np.testing.assert_allclose(system.mean, mean, atol=1e-8)
    found = system.variances(jnp.eye(len(mean)))
    np.testing.assert_allclose(found, np.diag(covariance), atol=1e-8)


@pytest.mark.slow
def test_laplace_is_so_too_where_everything_is_linear(problem):
    posterior = rz.fit(problem, "laplace", seed=0, progress=False, check=False)
    mean, covariance = closed_form(problem)
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(posterior.coordinate_mean() / sd, mean / sd, atol=1e-3)
    # Directions in which data tell next to nothing are left as the prior has them.
    np.testing.assert_allclose(posterior.coordinate_covariance(), covariance, atol=1e-4)


@pytest.mark.slow
def test_chains_agree_with_the_closed_form(problem):
    posterior = rz.fit(
        problem, pair("mcmc", kernel="nuts", num_samples=500), seed=0, progress=False
    )
    mean, covariance = closed_form(problem)
    sd = np.sqrt(np.diag(covariance))
    draws = np.asarray(posterior.sample(jr.key(0), 2000))
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 0.15
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1, atol=0.1)


@pytest.mark.slow
def test_auto_integrates_out_what_is_linear(problem):
    posterior = rz.fit(problem, seed=0, progress=False)
    assert posterior.engine == "laplace(marginal)"
    mean, covariance = closed_form(problem)
    own = float(posterior.mean("f")) - 0.5
    assert own == pytest.approx(mean[-1], abs=0.2 * np.sqrt(covariance[-1, -1]))


@pytest.fixture(scope="module")
def posterior(problem):
    return rz.fit(problem, pair("laplace(marginal)", num_draws=100), seed=0, progress=False)


@pytest.mark.slow
def test_forecasts_at_the_data_are_what_the_record_says(problem, posterior):
    draws = posterior.sample(jr.key(1), 100)
    said = np.stack([np.asarray(problem.operator @ problem.state(one)) for one in draws[:3]])
    found = rz.predict(posterior, "u", PLACES, times=[0.1, 0.17, 0.3], num_draws=100, quantiles=())
    assert found.mean.shape == (3, 3)
    # Data are met within noise, by each draw and by the mean of all.
    np.testing.assert_allclose(found.mean.ravel(), said.mean(axis=0), atol=0.2)


@pytest.mark.slow
def test_a_scenario_has_the_same_unknowns_and_other_stresses(posterior):
    warm = heat(dirichlet={"boundary": 3.0})
    now, then = (
        rz.predict(posterior, "u", [[0.1]], times=[0.3], under=own, num_draws=20, quantiles=())
        for own in (None, warm)
    )
    assert float(then.mean[0, 0]) > float(now.mean[0, 0]) + 0.5
    fewer = heat(latents={"start": rz.SPDEField(1.0, 0.3), "f": rz.SPDEField(1.0, 0.3)})
    with pytest.raises(RieszError, match="give times="):
        rz.predict(posterior, "u", under=warm)
    with pytest.raises(RieszError, match="they must be the same"):
        rz.predict(posterior, "u", times=[0.3], under=fewer)


@pytest.mark.slow
def test_steady_maps_of_a_state_in_time_are_refused(posterior):
    with pytest.raises(RieszError, match="differs from date to date"):
        rz.predict(posterior, "u")
    assert rz.predict(posterior, "f", num_draws=100, quantiles=()).mean.shape == ()
    with pytest.raises(RieszError, match=r"times=\.\.\. were given for 'f'"):
        rz.predict(posterior, "f", times=[0.3])


def test_readings_that_come_in_later_need_no_solve(problem):
    every = data()

    def some(part):
        return rz.observations(every.points[part], every.values[part], times=every.times[part])

    first = rz.inference.assimilate(heat(some(slice(0, 6))))
    found = first
    for part in (slice(6, 7), slice(7, 9)):  # also of some places alone
        found = found.update(some(part), rz.Gaussian(NOISE))
    mean, covariance = closed_form(problem)
    assert found.num_readings == 9
    np.testing.assert_allclose(found.mean(), mean, atol=1e-8)
    family = found.posterior().distribution
    np.testing.assert_allclose(family.variances(), np.diag(covariance), atol=1e-8)
    with pytest.raises(RieszError, match=r"first \[0.4\]"):
        first.update(rz.observations([[0.4]], [0.0], times=[0.1]), rz.Gaussian(NOISE))


def test_differences_since_a_time_are_differences_of_readings(problem):
    changes = heat(rz.observations([[0.5]], [0.0], times=[0.3], since=[0.1]))
    both = heat(rz.observations([[0.5], [0.5]], [0.0, 0.0], times=[0.3, 0.1]))
    record = jnp.arange(7.0)
    later, earlier = both.operator @ record
    assert float((changes.operator @ record)[0]) == pytest.approx(float(later - earlier))


def test_other_readings_make_another_problem_in_time(problem):
    later = rz.observations([[0.25], [0.3]], [0.0, 0.0], times=[0.2, 0.3])
    other = with_observations(problem, later, rz.Gaussian(NOISE))
    whole = heat(later)
    here = jnp.linspace(-1, 1, problem.num_coordinates)
    found, wanted = (own.operator @ own.state(here) for own in (other, whole))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_the_problem_tells_of_its_time_axis(problem):
    assert "6 steps of 0.05 .. 0.05, from 0.0 to 0.3" in str(problem)


ONE = {"times": [0.1]}


@pytest.mark.parametrize(
    ("observed", "changed", "told"),
    [
        (rz.observations([[0.5]], [0.0]), {}, "observations have no times"),
        (rz.observations([[0.5]], [0.0], times=[0.4]), {}, "outside the time axis, 0.0 to 0.3"),
        (rz.observations([[0.5]], [0.0], times=["2000-01-01"]), {}, "the time axis has numbers"),
        (None, {"times": None}, "no time axis"),
        (None, {"initial": "begin"}, "initial state is the unknown 'begin'"),
        (None, {"latents": LATENTS | {"t": dist.Normal(0.0, 1.0)}}, "the name of the time"),
    ],
)
def test_bad_input_is_refused_with_what_was_found(observed, changed, told):
    with pytest.raises(RieszError, match=told):
        heat(observed, **changed)


def test_times_must_be_one_for_each_value():
    with pytest.raises(RieszError, match=r"times have shape \(2,\)"):
        rz.observations([[0.5]], [0.0], times=[0.1, 0.2])


@pytest.mark.parametrize("engine", ["mcmc(reduced-basis)", "amortise"])
def test_engines_for_steady_states_say_so(problem, engine):
    own = engine if engine == "amortise" else density_in(engine).replace("-", " ")
    with pytest.raises(RieszError, match=f"{own} takes steady states"):
        rz.fit(problem, engine, progress=False)
