"""The error of a discretisation is told by one finer solve."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.diagnose import discretisation as module
from riesz.diagnose.discretisation import discretisation_error
from riesz.errors import RieszError
from riesz.notes import Severity
from riesz.problem.finer import on_refined_mesh

PI = np.pi


def wave(x):
    return jnp.prod(jnp.sin(PI * x))


def poisson(mesh, sensors, *, noise=0.01):
    """With the solution `wave` where the strength is one."""
    dim = mesh.dim
    return rz.inverse_problem(
        mesh,
        rz.diffusion(1.0) - rz.source(lambda x, z: z["s"] * dim * PI**2 * wave(x)),
        latents={"s": dist.Normal(1.0, 0.5)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(sensors, np.zeros(len(sensors))),
        likelihood=rz.Gaussian(noise),
    )


def effectivity(problem, truth):
    at = jnp.zeros(problem.num_coordinates)
    own = problem.predict(problem.state(at), problem.z(at))
    estimate = discretisation_error(problem, at)
    return estimate, estimate.at_sensors / (truth - np.asarray(own))


def truth_less_own(estimate, ratio):
    return estimate.at_sensors / ratio


def test_large_meshes_are_refused_before_a_finer_one_is_made(monkeypatch):
    monkeypatch.setattr(module, "MOST_UNKNOWNS", 30)
    monkeypatch.delattr(module, "on_finer_elements")
    with pytest.raises(RieszError, match="36 unknowns"):
        discretisation_error(poisson(rz.rectangle((4, 4)), np.array([[0.4, 0.6]])), jnp.zeros(1))


def test_quadratic_elements_tell_the_error_of_linear_ones():
    sensors = np.random.default_rng(0).uniform(0.1, 0.9, (12, 2))
    truth = np.prod(np.sin(PI * sensors), axis=1)
    estimate, ratio = effectivity(poisson(rz.rectangle((8, 8)), sensors), truth)
    assert ratio.min() > 0.8
    assert ratio.max() < 1.25
    assert estimate.in_noise[estimate.worst] == estimate.in_noise.max() > 1
    assert estimate.note().severity is Severity.WARNING
    assert (np.abs(estimate.at_sensors - truth_less_own(estimate, ratio)) < 2 * estimate.sd).all()


def test_tetrahedra_are_cut_and_the_error_extrapolated():
    nodes = np.array([[0.5, 0.5, 0.5], [0.25, 0.5, 0.5], [0.5, 0.75, 0.25]])
    truth = np.prod(np.sin(PI * nodes), axis=1)
    estimate, ratio = effectivity(poisson(rz.mesh.box((8, 8, 8)), nodes), truth)
    assert ratio.min() > 0.8
    assert ratio.max() < 1.25
    assert (estimate.sd > 0).all()


def carried(diffusivity, most=0.9):
    """Along x and a little along y, on cells of an eighth."""
    sensors = np.random.default_rng(2).uniform(0.1, 0.9, (12, 2))
    sensors[:6, 0] = most
    return rz.inverse_problem(
        rz.rectangle((8, 8)),
        rz.diffusion(diffusivity) + rz.advection(jnp.array([5.0, 1.0]), supg=True) - rz.source("s"),
        latents={"s": dist.Normal(1.0, 0.5)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(sensors, np.zeros(12)),
        likelihood=rz.Gaussian(1e-3),
    )


def test_an_equation_with_upwinding_takes_two_refined_meshes():
    problem = finer = carried(0.2)
    for _ in range(4):
        finer = on_refined_mesh(finer)
    at = jnp.zeros(1)
    estimate, ratio = effectivity(problem, np.asarray(finer.predict(finer.state(at), finer.z(at))))
    assert np.median(np.abs(ratio - 1)) < 0.1
    assert estimate.is_trusted
    assert (estimate.sd > 0).all()


def test_where_a_second_refinement_adds_as_much_as_the_first_it_is_said(monkeypatch):
    estimate = discretisation_error(carried(0.02, most=0.99), jnp.zeros(1))
    assert not estimate.settles
    assert "do not tell by how much" in str(estimate)
    # Nor is it known where a second one is too large.
    monkeypatch.setattr(module, "MOST_UNKNOWNS", 300)
    assert not discretisation_error(carried(0.2), jnp.zeros(1)).settles


def decay(prior, scheme, steps, times, values, *, noise):
    """u' = -k u of a state that is the same everywhere: what remains is exp(-k t)."""
    return rz.inverse_problem(
        rz.rectangle((2, 2)),
        rz.storage(1.0) + rz.reaction("k") + rz.diffusion(1.0),
        latents={"k": prior},
        times=np.linspace(0, 1, steps + 1),
        initial=1.0,
        scheme=scheme,
        observations=rz.observations(np.full((len(times), 2), 0.4), values, times=times),
        likelihood=rz.Gaussian(noise),
    )


@pytest.mark.parametrize(("scheme", "order"), [("euler", 1), ("sdirk2", 2)])
def test_half_steps_tell_the_error_of_steps(scheme, order):
    times = np.array([0.25, 0.5, 1.0])
    problem = decay(dist.Normal(1.5, 0.1), scheme, 8, times, np.zeros(3), noise=0.01)
    estimate, ratio = effectivity(problem, np.exp(-1.5 * times))
    assert ratio.min() > 0.85
    assert ratio.max() < 1.15
    np.testing.assert_allclose(estimate.mesh.at_sensors, 0, atol=1e-9)
    assert estimate.steps.sd.max() < np.abs(estimate.at_sensors).max() * 2.0**-order * 2


def test_noise_that_is_not_added_measures_the_error_in_its_own_way():
    problem = rz.inverse_problem(
        rz.rectangle((6, 6)),
        rz.diffusion(1.0) - rz.source(lambda x, z: z["s"] * 2 * PI**2 * wave(x)),
        latents={"s": dist.Normal(1.0, 0.1)},
        dirichlet={"boundary": 3.0},
        observations=rz.observations(np.array([[0.4, 0.5], [0.6, 0.3]]), np.array([4.0, 5.0])),
        likelihood=rz.Poisson(),
    )
    estimate = discretisation_error(problem, jnp.zeros(1))
    assert np.isfinite(estimate.in_noise).all()
    assert (estimate.in_noise > 0).all()


def test_a_posterior_is_looked_at_where_its_mean_is():
    problem = poisson(rz.rectangle((6, 6)), np.array([[0.4, 0.5], [0.6, 0.3]]))
    posterior = rz.fit(problem, rz.Laplace(), check=False, progress=False)
    found = rz.diagnose.mesh_error(posterior)
    wanted = discretisation_error(problem, posterior.coordinate_mean())
    np.testing.assert_array_equal(found.at_sensors, wanted.at_sensors)
    assert "at observation" in str(found)
