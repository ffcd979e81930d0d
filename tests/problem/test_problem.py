"""Inverse problems: a posterior density that compiles, and input that is refused in words."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS, init_to_value
from numpyro.infer.util import log_density

from riesz.diagnose import taylor_test
from riesz.errors import RieszError, SolveError
from riesz.fem.elements.space import P1
from riesz.fem.linear.linear_solve import SparseLU
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import advection, diffusion, integral, point_source, source
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian, StudentT
from riesz.observe.observations import observations
from riesz.priors.gaussian_process import GP, LogGP
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.kernels import Matern52
from riesz.problem.checks import check_kinds_of_parts
from riesz.problem.posing import inverse_problem

MESH = rectangle((4, 4))
SEEN = observations([[0.3, 0.4], [0.7, 0.2], [0.5, 0.9]], [0.2, 0.1, 0.3])
POSITIVE, REAL = dist.LogNormal(0.0, 0.5), dist.Normal(0.0, 1.0)


def build(equation, latents, *, noise=0.1, dirichlet=None, seen=SEEN, **settings):
    likelihood = noise if isinstance(noise, Gaussian | StudentT) else Gaussian(noise)
    return inverse_problem(
        MESH,
        equation,
        latents=latents,
        observations=seen,
        likelihood=likelihood,
        dirichlet={"boundary": 0.0} if dirichlet is None else dirichlet,
        **settings,
    )


@pytest.fixture(scope="module")
def problem():
    """A positive field, a boundary value that is a field, a transport vector, a learned noise."""
    return build(
        diffusion("a") + advection("tau") - source(1.0),
        {
            "a": LogGP(Matern52(0.5), inducing=3),
            "tau": dist.Normal(0.0, 2.0).expand([2]),
            "g": GP(Matern52(0.5, 0.1), inducing=2),
            "sigma": dist.HalfNormal(1.0),
        },
        dirichlet={"left": 0.0, "right": "g"},
        noise=StudentT("sigma"),
    )


def test_a_state_is_the_solution_or_nan_throughout_where_there_is_none(problem, coordinates):
    solved = jax.jit(lambda one: problem.solve(one, SparseLU()))
    np.testing.assert_array_equal(solved(coordinates), problem.state(coordinates))
    assert np.isnan(solved(coordinates.at[0].set(-1e4))).all()  # a diffusivity of zero


def test_the_noise_has_one_sd_a_sensor_in_the_precision_of_the_state(problem, coordinates):
    sigma = problem.z(coordinates)["sigma"]
    wide = np.sqrt(2) * sigma  # of heavy tails with four degrees of freedom
    np.testing.assert_allclose(problem.noise_sd({"sigma": sigma}), [wide] * 3, rtol=1e-12)
    for sd in (0.1, np.array([0.1, 0.2, 0.3]), lambda z: 2 * z["f"]):
        single = build(diffusion(1.0) - source("f"), {"f": POSITIVE}, noise=sd, dtype=np.float32)
        found = single.noise_sd({"f": jnp.asarray(0.5, np.float32)})
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.broadcast_to(1.0 if callable(sd) else sd, 3))


@pytest.fixture(scope="module")
def densities(problem):
    return jax.jit(jax.vmap(problem.log_prob))


@pytest.fixture
def coordinates(problem):
    return jnp.asarray(np.random.default_rng(0).normal(size=problem.num_coordinates))


def test_the_density_is_that_of_its_parts(problem, coordinates):
    z = problem.z(coordinates)
    predicted = problem.operator @ solve(problem.forward, z)
    expected = dist.Normal(0.0, 1.0).log_prob(coordinates).sum()
    expected += dist.StudentT(4.0, predicted, z["sigma"]).log_prob(problem.observed).sum()
    np.testing.assert_allclose(problem.log_prob(coordinates), expected)


@pytest.mark.slow
def test_mapping_over_samples_is_a_loop(problem, densities, coordinates):
    many = coordinates[None] * jnp.array([[1.0], [-0.5]])
    np.testing.assert_allclose(densities(many), [problem.log_prob(one) for one in many])


@pytest.mark.slow  # quickly, the gradients of solves and that mapping changes no value
def test_the_mapped_density_has_its_gradient(densities, coordinates):
    outcome = taylor_test(lambda c: jnp.sum(densities(jnp.stack([c, -c]))), coordinates)
    assert outcome.passed, str(outcome)


def test_a_problem_may_be_in_a_compiled_function_or_an_argument_of_it(problem, coordinates):
    assert jax.eval_shape(jax.jit(problem.log_prob), coordinates).shape == ()
    state = jnp.zeros(25)
    compiled = eqx.filter_jit(lambda p, c: p.log_likelihood(c, state))(problem, coordinates)
    np.testing.assert_allclose(compiled, problem.log_likelihood(coordinates, state))


def test_the_model_for_numpyro_has_the_same_density(problem, coordinates):
    found, sites = log_density(problem.numpyro_model(), (), {}, {"coordinates": coordinates})
    np.testing.assert_allclose(found, problem.log_prob(coordinates))
    np.testing.assert_allclose(sites["tau"]["value"], 2 * coordinates[3:5])


def test_a_proposal_without_a_solution_is_rejected_and_ends_no_chain(problem, coordinates):
    """One that overflows: eagerly it says so, in compiled code its density is zero."""
    nowhere = coordinates.at[0].set(-1e4)
    with pytest.raises(SolveError):
        problem.log_prob(nowhere)
    both = jax.jit(jax.vmap(problem.log_prob))(jnp.stack([coordinates, nowhere]))
    np.testing.assert_allclose(both[0], problem.log_prob(coordinates))
    assert both[1] == -np.inf
    model = problem.numpyro_model()
    given = jax.jit(lambda own: log_density(model, (), {}, {"coordinates": own})[0])
    assert not np.isfinite(given(nowhere))


def test_a_chain_of_numpyro_goes_on_past_proposals_without_a_solution():
    r"""$-\Delta u = r e^u$ has no solution from r = 6.8 on, which half of the prior allows."""
    forward = boundary_value_problem(P1(MESH), diffusion(1.0) + integral(bratu), {"boundary": 0.0})

    def model():
        r = numpyro.sample("r", dist.Uniform(0.0, 14.0))
        middle = solve(forward, {"r": r})[12]
        numpyro.sample("seen", dist.Normal(middle, 1.0), obs=0.5)

    begin = init_to_value(values={"r": 2.0})
    chain = MCMC(
        NUTS(model, init_strategy=begin), num_warmup=20, num_samples=20, progress_bar=False
    )
    chain.run(jax.random.key(0))
    draws = np.asarray(chain.get_samples()["r"])
    assert draws.std() > 0.1
    assert draws.max() < 9.0  # the mesh is coarse


def bratu(u, v, *, z):
    return -z["r"] * jnp.exp(u.value) * v.value


def test_the_summary_says_everything_in_words(problem):
    text = str(problem)
    for part in (
        "25 nodes, 32 triangles, from (0, 0) to (1, 1)",
        "+ diffusion(diffusivity: unknown field 'a')",
        "- source(strength: 1) = 0",
        "right: unknown field 'g'",
        "a: GP field, Matern52 with length scale 0.5",
        "tau: Normal, 95 % within (-3.92, -3.92) .. (3.92, 3.92)",
        "8, standard normal",
        "3, values 0.1 .. 0.3",
        "Student-t with 4 degrees of freedom, sd 'sigma' learned",
    ):
        assert part in text, text
    assert "a, tau, g, sigma from 3 observations" in repr(problem)


@pytest.mark.slow
def test_single_precision_goes_through_all_latents():
    problem = build(
        diffusion("a") - source("f") - source(1.0),
        {"a": KarhunenLoeve(Matern52(), 3, transform=jnp.exp), "f": GP(Matern52(), 3)},
        dtype=jnp.float32,
        noise=[0.1, 0.2, 0.3],
    )
    c = jnp.ones(problem.num_coordinates, jnp.float32)
    assert {leaf.dtype for leaf in jax.tree.leaves(problem.z(c))} == {jnp.dtype(jnp.float32)}
    latent = problem.latents.latents["f"]
    assert latent.field.nodal(problem.z(c)["f"].weights).dtype == jnp.float32
    assert problem.log_likelihood(c, jnp.zeros(25, jnp.float32)).dtype == jnp.float32


A, F = {"a": POSITIVE}, {"f": REAL}
POISSON = diffusion("a") - source(1.0)
WELL = [[0.5, 0.5], [0.2, 0.2]]


def seen_at(*points):
    return observations(points, np.arange(len(points), dtype=float))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: build(POISSON, A, seen=seen_at([0.5, 0.5], [2.0, 0.5], [0.1, 7.0])),
            r"of the observations, 2 of 3 points lie outside the mesh, first point 1 at \[2.0, 0.5",
        ),
        (lambda: build(POISSON, A, seen=observations([0.5], [1.0])), "have 1 coordinates"),
        (lambda: build(POISSON, F), "the diffusivity of diffusion is the unknown 'a', but priors"),
        (lambda: build(POISSON, A, dirichlet={"left": "g"}), "Dirichlet value on 'left' is the"),
        (lambda: build(POISSON, A, noise="sigma"), "the noise sd is the unknown 'sigma'"),
        (
            lambda: build(POISSON - point_source(WELL, "q"), A),
            "the rates of a point source is the unknown 'q'",
        ),
        (
            lambda: build(diffusion(lambda x, z: z["b"]) - source("a"), A),
            "a function in the problem reads the unknown 'b', but priors are given for 'a'",
        ),
        (
            lambda: build(diffusion(1.0) + advection("f"), F),
            r"the prior of 'f' has shape \(\), but the velocity of advection needs \(2,\): give .*"
            r"expand\(\[2\]\), or mean = \[0.0, 0.0\]",
        ),
        (
            lambda: build(diffusion(1.0) + advection("f"), {"f": GP(Matern52())}),
            "the velocity of advection needs",
        ),
        (
            lambda: build(diffusion(1.0), {"g": REAL.expand([2])}, dirichlet={"left": "g"}),
            r"the prior of 'g' has shape \(2,\), but the Dirichlet value on 'left' needs \(\)",
        ),
        (
            lambda: build(diffusion(1.0) - point_source(WELL, "q"), {"q": REAL}),
            r"the prior of 'q' has shape \(\), but the point source, with a rate a point, needs "
            r"\(2,\)",
        ),
        (
            lambda: build(diffusion(1.0) - point_source(WELL, "q"), {"q": GP(Matern52())}),
            "the prior of 'q' is over fields, but the point source",
        ),
        (
            lambda: build(POISSON, {**A, "s": POSITIVE.expand([2])}, noise="s"),
            r"the prior of 's' has shape \(2,\), but the noise sd needs \(\) or \(3,\)",
        ),
        (
            lambda: build(POISSON, A, noise=[0.1, 0.2]),
            r"noise sd has shape \(2,\), but there",
        ),
        (lambda: build(POISSON, A, noise=lambda z: jnp.ones(4)), r"noise sd has shape \(4,\)"),
        (lambda: build(POISSON, {**A, "s": REAL}, noise="s"), "the noise sd may be -3 under"),
        (lambda: build(POISSON, A, noise=lambda z: -z["a"]), "the noise sd may be -1 under"),
        (lambda: build(POISSON, {"a": REAL}), "median of the prior of 'a' is not positive"),
        (lambda: build(POISSON, {"a": GP(Matern52())}), "use a LogNormal .* LogGP"),
        (lambda: build(POISSON, {}), "unknown 'a', but priors are given for nothing"),
        (lambda: build(diffusion(1.0), {}), "there are no unknowns"),
        (
            lambda: build(POISSON, {"a": POSITIVE.expand([2])}),
            r"'a' has shape \(2,\), but the diffusivity of diffusion needs \(\) or \(2, 2\)",
        ),
        (lambda: build(POISSON, {"a": 1.0}), "the prior of 'a' is a float: give a NumPyro"),
        (lambda: build(POISSON, {**A, "u": REAL}), "called 'u', the name of the state: rename"),
        (lambda: build(POISSON, {**A, "observed": REAL}), "a site of numpyro_model"),
        (lambda: build(source("f"), F, dirichlet={"left": 0.0}), "no term .* depends on u"),
        (
            lambda: build(POISSON, {"a": GP(Matern52(), mean=lambda x: jnp.nan * x[0])}),
            "the mean of a field is nan at",
        ),
        (
            lambda: build(
                diffusion(1.0), {"g": KarhunenLoeve(Matern52(), 2)}, dirichlet={"left": "g"}
            ),
            "Karhunen-Loeve field lives on the cells",
        ),
    ],
)
def test_bad_problems_are_refused(make, message):
    with pytest.raises(RieszError, match=message):
        make()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"domain": "mesh.msh"}, "domain: found str, give rz.rectangle"),
        ({"latents": ["a"]}, "latents: found list, give a prior for each name"),
        ({"observations": ([[0.5, 0.5]], [1.0])}, "observations: found tuple, give rz.observ"),
        ({"likelihood": 0.1}, r"likelihood: found float, give rz.Gaussian\(sd\)"),
        ({"likelihood": Gaussian}, "likelihood: found the class Gaussian, give"),
    ],
)
def test_parts_of_another_kind_are_refused(changed, message):
    # Asked directly: tests run with checks of types that come before it.
    parts = {"domain": MESH, "latents": A, "observations": SEEN, "likelihood": Gaussian(0.1)}
    check_kinds_of_parts(**parts)
    with pytest.raises(RieszError, match=message):
        check_kinds_of_parts(**(parts | changed))


def test_measuring_a_place_twice_is_allowed_and_told():
    with pytest.warns(UserWarning, match="1 places were observed more than once with different"):
        twice = seen_at([0.5, 0.5], [0.5, 0.5], [0.1, 0.7])
    problem = build(POISSON, A, seen=twice)
    operator = problem.operator.to_scipy().toarray()
    np.testing.assert_array_equal(operator[0], operator[1])


def test_unknowns_that_nothing_reads_are_told():
    with pytest.warns(UserWarning, match="the unknown 'b' has a prior, but neither"):
        build(POISSON, {**A, "b": REAL})


def test_unknowns_in_functions_count_as_read():
    problem = build(
        integral(lambda u, v, z: (z["a"] * u.grad) @ v.grad) - source(1.0) - source("c"),
        {"a": POSITIVE, "b": REAL, "c": REAL, "s": POSITIVE},
        dirichlet={"left": lambda x, z: z["b"] * x[1]},
        noise=lambda z: 0.1 * z["s"],
    )
    assert problem.latents.names == ("a", "b", "c", "s")


def test_a_prior_that_reaches_below_zero_is_told():
    with pytest.warns(UserWarning, match=r"the prior of 'a' reaches -0.5 at three standard"):
        build(POISSON, {"a": dist.Normal(1.0, 0.5)})


def test_a_field_that_reaches_below_zero_is_told():
    with pytest.warns(UserWarning, match=r"the prior of 'a' reaches -.* draws, .* use LogGP"):
        build(POISSON, {"a": GP(Matern52(sd=5.0), mean=1.0)})


def test_boundary_values_that_hold_nowhere_are_told():
    with pytest.warns(UserWarning, match="value on 'left' holds nowhere: tags that come later"):
        build(POISSON, A, dirichlet={"left": 1.0, "boundary": 0.0})


def test_a_problem_names_the_parts_that_it_lacks():
    with pytest.raises(RieszError, match="lacks observations and likelihood: give them"):
        inverse_problem(MESH, POISSON, latents=A)
