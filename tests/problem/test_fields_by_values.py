"""Fields given by their values, and fields in functions of (x, z)."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz

MESH = rz.rectangle((3, 3))
SEEN = rz.observations([[0.3, 0.4], [0.7, 0.6]], [0.1, 0.2])
VALUES = 2.0 + MESH.nodes[:, 0]
STATE = jnp.asarray(np.random.default_rng(1).normal(size=MESH.num_nodes))


def posed(equation, **latents):
    return rz.inverse_problem(
        MESH,
        equation,
        latents=latents,
        dirichlet={"boundary": 0.0},
        observations=SEEN,
        likelihood=rz.Gaussian(0.1),
    )


def known(diffusivity, strength=1.0):
    """What the residual is where everything is known."""
    form = rz.diffusion(diffusivity) - rz.source(strength)
    return rz.fem.residual(rz.boundary_value_problem(rz.P1(MESH), form), STATE)


PRIORS = {
    "nodes": rz.SPDEField(1.0, 0.3, mean=2.0, transform=jnp.exp),
    "kernel": rz.priors.LogGP(rz.priors.Matern52(0.3), inducing=6, median=3.0),
}
each_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)


@each_prior
def test_a_field_given_by_its_values_is_that_field(prior):
    """Neither the prior's mean nor its transform comes on top."""
    problem = posed(rz.diffusion("a") - rz.source(1.0), a=prior)
    per_cell = rz.per_cell(np.full(MESH.num_cells, 3.0))
    for value in (3.0, rz.nodal(np.full(MESH.num_nodes, 3.0)), lambda x: 3.0 + 0 * x[0], per_cell):
        found = rz.fem.residual(problem.forward, STATE, {"a": value})
        np.testing.assert_allclose(found, known(3.0), rtol=1e-9, atol=1e-12)
    found = rz.fem.residual(problem.forward, STATE, {"a": rz.nodal(VALUES)})
    np.testing.assert_allclose(found, known(rz.nodal(VALUES)), rtol=1e-9, atol=1e-12)


def test_a_solution_and_simulated_data_are_those_of_the_values():
    problem = posed(rz.diffusion("a") - rz.source(1.0), a=PRIORS["nodes"])
    found = rz.solve(problem.forward, {"a": 3.0})
    form = rz.diffusion(3.0) - rz.source(1.0)
    exact = rz.solve(rz.boundary_value_problem(rz.P1(MESH), form, {"boundary": 0.0}))
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    np.testing.assert_allclose(problem.simulate({"a": 3.0}), problem.operator @ exact)


def test_a_bare_array_for_a_field_is_refused_in_and_out_of_programs():
    problem = posed(rz.diffusion("a") - rz.source(1.0), a=PRIORS["nodes"])
    bare = {"a": jnp.full(MESH.num_nodes, 3.0)}
    for solve in (rz.solve, jax.jit(lambda forward, z: rz.fem.residual(forward, STATE, z))):
        with pytest.raises(rz.errors.FormError, match=r"'a' is given as a bare array.*rz\.nodal"):
            solve(problem.forward, bare)


def test_values_of_a_field_and_its_weights_say_the_same():
    problem = posed(rz.diffusion(1.0) - rz.source("f"), f=rz.SPDEField(1.0, 0.3, mean=2.0))
    z = problem.z(jnp.asarray(np.random.default_rng(0).normal(size=problem.num_coordinates)))
    values = problem.latents.latents["f"].display_value(z["f"])
    found = rz.fem.residual(problem.forward, STATE, {"f": rz.nodal(values)})
    np.testing.assert_allclose(
        found, rz.fem.residual(problem.forward, STATE, z), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(found, known(1.0, rz.nodal(values)), rtol=1e-9, atol=1e-12)
    with pytest.raises(rz.RieszError, match="weights of a field where a number was wanted"):
        jnp.asarray(z["f"])


def test_a_function_of_x_and_z_sees_the_value_of_a_field_at_x():
    """A field times a number, written in three ways; linear, so that all rules are exact."""
    prior, number = rz.SPDEField(0.1, 0.3, mean=2.0), dist.LogNormal(0.0, 0.3)
    forms = (
        rz.diffusion(lambda x, z: z["a"] * z["c"]) - rz.source(1.0),
        rz.diffusion(rz.fem.scale("a", by="c")) - rz.source(1.0),
        rz.diffusion(rz.fem.scale("c", by="a")) - rz.source(1.0),
    )
    alone = posed(rz.diffusion("a") - rz.source(1.0), a=prior)
    for form in forms:
        problem = posed(form, a=prior, c=number)
        z = problem.z(jnp.linspace(-1.0, 1.0, problem.num_coordinates))
        whole, load = (rz.fem.residual(alone.forward, u, {"a": z["a"]}) for u in (STATE, 0 * STATE))
        found = rz.fem.residual(problem.forward, STATE, z)
        expected = z["c"] * (whole - load) + load
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        found = rz.fem.residual(problem.forward, STATE, {"a": rz.nodal(VALUES), "c": 2.0})
        np.testing.assert_allclose(found, known(rz.nodal(2 * VALUES)), rtol=1e-9, atol=1e-12)


def test_two_fields_meet_in_a_source_and_the_problem_is_not_taken_for_linear():
    priors = {"f": rz.SPDEField(1.0, 0.3), "g": rz.GP(rz.Matern32(0.3), inducing=5, mean=1.0)}
    problem = posed(rz.diffusion(1.0) - rz.source(lambda x, z: z["f"] * z["g"]), **priors)
    found = rz.fem.residual(problem.forward, STATE, {"f": rz.nodal(VALUES), "g": 2.0})
    np.testing.assert_allclose(found, known(1.0, rz.nodal(2 * VALUES)), rtol=1e-9, atol=1e-12)
    with pytest.raises(rz.RieszError, match="affine in none"):
        rz.fit(problem, "laplace(marginal)", progress=False)
    product = posed(rz.diffusion(1.0) - rz.source(rz.fem.scale("f", by="g")), **priors)
    assert "unknown field 'f' times unknown field 'g'" in str(product)
