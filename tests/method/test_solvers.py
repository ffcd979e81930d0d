"""Engines find by the solver that is chosen what they find by sparse LU."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.sparse.linalg as spla
from tests.pairs import pair

import riesz as rz
from riesz.density.exact import ExactDensity
from riesz.fem import default_solver
from riesz.fem.linear.linear_solve import Automatic
from riesz.method.newton import newton_step
from riesz.posterior.density import hessian_vector_products, linearize_at
from riesz.posterior.posterior import ExactStates
from riesz.priors.latent import value_of
from riesz.priors.spde import NodalLatent


def field_problem(domain) -> rz.InverseProblem:
    rng = np.random.default_rng(3)
    return rz.inverse_problem(
        domain,
        rz.diffusion("a") - rz.source(1.0),
        latents={"a": rz.SPDEField(0.8, 0.4, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations(
            rng.uniform(0.1, 0.9, (12, 2)), 0.06 + 0.01 * rng.normal(size=12)
        ),
        likelihood=rz.Gaussian(0.005),
    )


@pytest.mark.slow  # its programs are traced, eight seconds
def test_on_an_accelerator_nothing_of_laplace_calls_the_host(monkeypatch):
    """Unknowns at all nodes of the finest of nested meshes, whose levels multigrid takes."""
    meshes = rz.hierarchy(rz.rectangle((4, 4)), 3)
    monkeypatch.setattr(default_solver, "LARGEST_DENSE", 100)
    monkeypatch.setattr(default_solver.jax, "default_backend", lambda: "gpu")
    problem = field_problem(meshes)
    solver, coordinates = problem.default_solver(), jnp.linspace(-1.0, 1.0, problem.num_coordinates)
    assert isinstance(solver, rz.solvers.Multigrid)
    assert len(solver.tables) == 2  # the hierarchy's: 81 unknowns are few enough
    field = problem.latents.latents["a"]
    assert isinstance(field, NodalLatent)
    by_lu = np.asarray(spla.spsolve(field.operator.to_scipy(), field.root_volumes * coordinates))
    np.testing.assert_allclose(value_of(field, coordinates), by_lu, atol=1e-9, rtol=0)
    density = ExactDensity(problem, solver)
    place = eqx.filter_eval_shape(linearize_at, density, coordinates)
    one = jnp.ones(())
    programs = (
        eqx.filter_make_jaxpr(linearize_at)(density, coordinates),
        eqx.filter_make_jaxpr(newton_step)(density, place, one, one, one),
        eqx.filter_make_jaxpr(hessian_vector_products)(density, place, coordinates[None]),
    )
    for program, *_ in programs:
        assert "host_lu" not in str(program)
        assert "callback" not in str(program)


@pytest.mark.slow
def test_laplace_by_multigrid_is_laplace_by_lu_and_is_kept_without_its_tables(monkeypatch):
    problem = field_problem(rz.rectangle((14, 14)))
    by_lu = pair("laplace", linear_solver=rz.solvers.SparseLU()).run(problem)
    monkeypatch.setattr(default_solver, "LARGEST_FOR_LU", {2: 10})
    by_choice = pair("laplace").run(problem)
    assert isinstance(problem.default_solver(), rz.solvers.Multigrid)
    assert isinstance(by_choice.states, ExactStates)
    assert isinstance(by_choice.states.linear_solver, Automatic)
    np.testing.assert_allclose(
        by_choice.coordinate_mean(), by_lu.coordinate_mean(), atol=1e-5, rtol=0
    )
    key, draws = jr.key(0), by_lu.sample(jr.key(1), 3)
    z = jax.vmap(problem.z)(draws)
    states = [one.states.from_outside(problem, key, draws, z) for one in (by_choice, by_lu)]
    np.testing.assert_allclose(*states, atol=1e-9, rtol=0)
