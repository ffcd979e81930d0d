"""What the mesh and the steps miss is added to data and predictions alike."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.diagnose.test_mesh_error import PI, decay, poisson

import riesz as rz
from riesz.diagnose.discretisation import discretisation_error
from riesz.errors import RieszError
from riesz.fem.elements.space import point_operator
from riesz.notes import Severity
from riesz.posterior.mesh_shift import with_mesh_error
from riesz.prediction.drawing import draws_and_course
from riesz.problem.posing import with_observations

STRENGTH, NOISE = 1.3, 0.01
UNSEEN = np.random.default_rng(1).uniform(0.1, 0.9, (40, 2))


def truth(places):
    return STRENGTH * np.prod(np.sin(PI * places), axis=1)


def with_readings(mesh, likelihood=None):
    """Of the continuous solution, with noise that is far smaller than the error of the mesh."""
    rng = np.random.default_rng(0)
    sensors = rng.uniform(0.1, 0.9, (30, 2))
    problem = poisson(mesh, sensors, noise=NOISE)
    values = truth(sensors) + NOISE * rng.normal(size=30)
    observed = rz.observations(sensors, values)
    return with_observations(problem, observed, likelihood or problem.likelihood)


def off(posterior):
    """Of the strength, in its sd; and the largest error of the state, in its sd."""
    found = rz.predict(posterior, "u", UNSEEN)
    unknown = abs(posterior.mean("s") - STRENGTH) / posterior.sd("s")
    return unknown, np.abs((found.mean - truth(UNSEEN)) / found.sd).max()


def fitted(problem, method="laplace", **how):
    return rz.fit(problem, method, check=False, progress=False, **how)


def test_unknowns_and_states_are_right_where_the_mesh_is_coarse():
    problem = with_readings(rz.rectangle((8, 8)))
    assert min(off(fitted(problem))) > 10
    posterior = fitted(problem, mesh_error="correct")
    assert max(off(posterior)) < 3
    assert posterior.notes[-1].severity is Severity.INFO
    assert "are corrected by that" in str(posterior.notes[-1])
    # Also where a new measurement is made, at nodes, and at the sensors.
    measured = rz.predict(posterior, "measurement", UNSEEN)
    assert np.abs(measured.mean - truth(UNSEEN)).max() < NOISE
    nodes = problem.forward.space.mesh.nodes
    assert np.abs(rz.predict(posterior, "u").mean - truth(nodes)).max() < NOISE
    again = rz.predict(posterior, "measurement")
    assert np.abs(again.mean - np.asarray(problem.observed)).max() < 4 * NOISE


@pytest.mark.parametrize(
    ("method", "density"),
    [
        ("auto", None),
        pytest.param("gaussian-vi", "reduced-basis", marks=pytest.mark.slow),
        pytest.param("mcmc", "exact", marks=pytest.mark.slow),
    ],
)
def test_all_ways_to_a_posterior_agree(method, density):
    problem = with_readings(rz.rectangle((8, 8)))
    wanted = fitted(problem, mesh_error="correct")
    found = fitted(problem, method, density=density, mesh_error="correct")
    assert abs(found.mean("s") - wanted.mean("s")) < 0.1 * wanted.sd("s")
    assert found.sd("s") == pytest.approx(wanted.sd("s"), rel=0.05)
    assert found.shift is not None


def test_corrected_states_converge_faster_than_those_of_the_mesh():
    errors, origin = [], jnp.zeros(1)  # where the strength is one
    for cells in (4, 8, 16):
        problem = with_readings(rz.rectangle((cells, cells)))
        space = problem.forward.space
        own = np.asarray(point_operator(space, UNSEEN) @ problem.state(origin))
        corrected = own + discretisation_error(problem, origin).at(space.mesh, UNSEEN)[0]
        errors.append([np.abs(one - truth(UNSEEN) / STRENGTH).max() for one in (own, corrected)])
    order, corrected_order = np.log2(np.divide(errors[-2], errors[-1]))
    assert order < 2.2
    assert corrected_order > 2.7


def test_a_corrected_posterior_is_kept_and_read(tmp_path):
    problem = with_readings(rz.rectangle((8, 8)))
    posterior = fitted(problem, mesh_error="correct")
    rz.io.save_posterior(tmp_path / "kept", posterior)
    again = rz.io.load_posterior(tmp_path / "kept", problem)
    for at in (None, UNSEEN):
        for quantity in ("u", "measurement"):
            one, two = (rz.predict(own, quantity, at) for own in (posterior, again))
            np.testing.assert_array_equal(one.mean, two.mean)


def test_steps_are_corrected_at_times_that_were_not_read():
    rate, read, asked = 1.5, np.linspace(0.2, 1.0, 9), np.array([0.33, 0.5, 0.95])
    rng = np.random.default_rng(0)
    values = np.exp(-rate * read) + 0.002 * rng.normal(size=9)
    problem = decay(dist.Normal(1.0, 1.0), "euler", 16, read, values, noise=0.002)
    own, corrected = fitted(problem), fitted(problem, mesh_error="correct")
    errors = [abs(one.mean("k") - rate) for one in (own, corrected)]
    assert errors[1] < errors[0] / 3
    for place in (None, np.array([[0.4, 0.4]])):
        state = rz.predict(corrected, "u", place, times=asked)
        mean, sd = (np.reshape(one, (3, -1))[:, 0] for one in (state.mean, state.sd))
        assert np.abs((mean - np.exp(-rate * asked)) / sd).max() < 3


def test_of_what_is_only_told_in_time_a_map_of_the_largest_is_kept():
    read, rate = np.array([0.5, 1.0]), 1.5
    values = np.exp(-rate * read)
    problem = decay(dist.Normal(rate, 0.01), "euler", 16, read, values, noise=0.5)
    told = fitted(problem, mesh_error="report")
    assert told.mesh_shift is not None
    assert len(told.mesh_shift.states) == 1
    draws, _ = draws_and_course(told)
    assert draws.mesh_error is not None
    steps = np.arange(17)
    missed = np.abs((1 + rate / 16.0) ** -steps - np.exp(-rate / 16 * steps)).max()
    np.testing.assert_allclose(draws.mesh_error, missed, rtol=0.1)


def test_what_is_expected_of_counts_is_corrected_and_their_scatter_is_not():
    problem = with_readings(rz.rectangle((4, 4)), rz.Gaussian(NOISE))
    problem = dataclasses.replace(
        problem, likelihood=rz.Poisson(), observed=jnp.round(100 * problem.observed)
    )
    shift = discretisation_error(problem, jnp.ones(1))
    seen, z = jnp.full(30, 2.0), problem.z(jnp.ones(1))
    other = with_mesh_error(problem, shift).likelihood
    wanted = problem.likelihood.location(seen + jnp.asarray(shift.at_sensors), z)
    np.testing.assert_allclose(other.location(seen, z), wanted)
    assert other.is_discrete


def test_an_error_that_is_as_large_as_the_state_is_told_and_not_corrected():
    problem = with_readings(rz.rectangle((2, 2)))
    with pytest.warns(UserWarning, match="mesh: what is predicted is off"):
        posterior = fitted(problem, mesh_error="correct")
    assert posterior.shift is None
    assert posterior.mesh_shift is not None
    assert not posterior.mesh_shift.is_trusted


def test_a_fine_mesh_is_left_as_it_is():
    problem = with_readings(rz.rectangle((8, 8)), rz.Gaussian(10.0))
    posterior = fitted(problem, mesh_error="correct")
    assert posterior.shift is None
    assert posterior.notes[-1].code == "mesh_error"


def test_other_words_are_refused_before_the_fit():
    with pytest.raises(RieszError, match="give correct, report or off"):
        fitted(with_readings(rz.rectangle((2, 2))), mesh_error="on")
