"""A mesh as fine as the data need, where they need it."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.diagnose.goal_oriented import cells_to_cut, mesh_for_data
from riesz.errors import RieszError
from riesz.notes import NoteWarning, Severity
from riesz.posterior.family import MeanField
from riesz.posterior.posterior import ExactStates

SENSORS = np.array([[-0.3, 0.2], [-0.5, -0.5], [0.4, 0.6]])
NOISE = 0.005


def corner_solution(x):
    """Harmonic in the L-shape, with a gradient that is infinite at its corner."""
    angle = jnp.mod(jnp.arctan2(x[1], x[0]) + 1e-12, 2 * jnp.pi)
    return (x @ x + 1e-300) ** (1 / 3) * jnp.sin(2 * angle / 3)


def posed(mesh):
    return rz.inverse_problem(
        mesh,
        rz.diffusion(1.0),
        latents={"s": dist.Normal(1.0, 0.5)},
        dirichlet={"boundary": lambda x, z: z["s"] * corner_solution(x)},
        observations=rz.observations(SENSORS, np.array([corner_solution(x) for x in SENSORS])),
        likelihood=rz.Gaussian(NOISE),
    )


def error_in_noise(problem):
    at = jnp.zeros(1)
    predicted = problem.predict(problem.state(at), problem.z(at))
    return np.abs(np.asarray(predicted - problem.observed)).max() / NOISE


def test_the_data_need_a_third_of_the_nodes_of_uniform_refinement():
    result = mesh_for_data(posed(rz.mesh.l_shape(8)), jnp.zeros(1))
    assert result.note.severity is Severity.INFO
    assert error_in_noise(result.problem) < 0.1
    uniform = posed(rz.mesh.l_shape(36))
    assert 3 * result.mesh.num_nodes < uniform.forward.space.mesh.num_nodes
    assert error_in_noise(uniform) > 0.1


def test_where_nodes_are_too_few_a_warning_says_so():
    problem = posed(rz.mesh.l_shape(8))
    normal = MeanField(jnp.zeros(1), jnp.zeros(1))
    posterior = rz.Posterior(problem, normal, ExactStates())
    with pytest.warns(NoteWarning, match="the data need more nodes"):
        finer = rz.refine(problem, posterior, most_nodes=400)
    assert 225 < finer.forward.space.mesh.num_nodes <= 400


def test_the_fewest_cells_have_most_of_the_sum():
    indicators = np.array([1.0, 5.0, 0.5, 3.0, 0.5])
    np.testing.assert_array_equal(cells_to_cut(indicators, 10.0), [1, 3])
    np.testing.assert_array_equal(cells_to_cut(indicators, 0.11), [1])


def test_other_problems_are_refused_in_one_sentence():
    observed = {
        "latents": {"s": dist.Normal(1.0, 0.5)},
        "dirichlet": {"boundary": 0.0},
        "likelihood": rz.Gaussian(0.1),
    }
    equation = rz.diffusion(1.0) - rz.source("s")
    box = rz.observations(np.full((1, 3), 0.4), np.zeros(1))
    flat = rz.observations(np.full((1, 2), 0.4), np.zeros(1))
    for domain, data, match in (
        (rz.mesh.box((2, 2, 2)), box, "3 dimensions"),
        (rz.P2(rz.rectangle((2, 2))), flat, "elements are quadratic"),
    ):
        problem = rz.inverse_problem(domain, equation, observations=data, **observed)
        with pytest.raises(RieszError, match=match):
            mesh_for_data(problem, jnp.zeros(1))
