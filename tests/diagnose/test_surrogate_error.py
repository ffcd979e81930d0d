"""The dual residual of a surrogate against its true error."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from tests.linear_gaussian import exact_posterior, linear_problem

from riesz.density.surrogate.start import initial_surrogate
from riesz.diagnose.importance import surrogate_error, with_surrogate_error
from riesz.diagnose.summary import summary
from riesz.errors import RieszError
from riesz.posterior.family import full_rank
from riesz.posterior.posterior import Posterior, SurrogateStates


@pytest.fixture(scope="module")
def untrained():
    """A surrogate that knows its boundary values and nothing else."""
    problem = linear_problem()
    surrogate = initial_surrogate(problem, jr.key(0), width=8, features=8)
    return Posterior(
        problem,
        full_rank(3, jnp.float64),
        SurrogateStates(surrogate),
        engine="gaussian-vi(surrogate)",
    )


@pytest.fixture(scope="module")
def checked(untrained):
    return with_surrogate_error(untrained)


@pytest.mark.slow
def test_for_a_symmetric_equation_the_estimate_is_the_error(checked):
    """Whatever the surrogate: the residual is the Riesz representer of the error."""
    found = checked.surrogate_error
    np.testing.assert_allclose(found.efficiency, 1.0, rtol=1e-8)
    assert found.error.min() > 0.1  # it was not trained
    assert found.sensor_error.min() > 0.1


@pytest.mark.slow
def test_a_posterior_carries_it_to_its_summary(untrained, checked):
    found = checked.surrogate_error
    assert found is not None
    assert len(found.error) == 32
    assert untrained.surrogate_error is None
    assert "efficiency index 1.00" in str(summary(checked, num_draws=10))


def test_exact_states_have_no_such_error():
    with pytest.raises(RieszError, match="by formula has no surrogate"):
        surrogate_error(exact_posterior())


@pytest.mark.slow
def test_errors_are_relative_to_the_energy_of_the_whole_state(untrained):
    """Boundary values included: without them it would hang on the size of the cells."""
    problem, found = untrained.problem, surrogate_error(untrained, num_draws=2)
    draws = untrained.sample(jr.key(0), 2)
    emulated = untrained.states(problem, jr.key(0), draws)
    for draw, state, error in zip(draws, emulated, found.error, strict=True):
        exact = problem.state(draw)
        sizes = [dirichlet_energy(problem, values) for values in (state - exact, exact)]
        assert error == pytest.approx(np.sqrt(sizes[0] / sizes[1]), rel=1e-8)


def dirichlet_energy(problem, values):
    """The integral of the squared gradient, triangle by triangle."""
    mesh = problem.forward.space.mesh
    corners, heights = mesh.nodes[mesh.cells], np.asarray(values)[mesh.cells]
    edges = corners[:, 1:] - corners[:, :1]
    slopes = np.linalg.solve(edges, (heights[:, 1:] - heights[:, :1])[:, :, None])[:, :, 0]
    return np.sum(np.abs(np.linalg.det(edges)) / 2 * np.sum(slopes**2, axis=1))
