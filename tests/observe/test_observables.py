"""What is measured beside values at points, in the plane, and which engines take it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.errors import MeshError, RieszError
from riesz.inference.fit import choose_engine

MESH = rz.mesh.tag_region(rz.rectangle((6, 6)), "west", [[0, 0], [0.5, 0], [0.5, 1], [0, 1]])
SQUARE = np.array([[0.2, 0.3], [0.8, 0.3], [0.8, 0.6], [0.2, 0.6]])
PLACES = np.array([[0.3, 0.35], [0.55, 0.7]])
PRIORS = {"w": dist.Normal(0.0, 1.0).expand([2])}


def posed(*data, domain=MESH, likelihood=None, **changed):
    """-div grad u = w0 + w1 x, with u = 1 + 2 x + 3 y on the boundary."""

    def strength(x, z):
        return z["w"][0] + z["w"][1] * x[0]

    parts = {
        "latents": PRIORS,
        "dirichlet": {"boundary": lambda x: 1 + 2 * x[0] + 3 * x[1]},
        "likelihood": [rz.Gaussian(0.1)] * len(data) if likelihood is None else likelihood,
    }
    equation = rz.diffusion(1.0) - rz.source(strength)
    return rz.inverse_problem(domain, equation, observations=list(data), **(parts | changed))


ALL = [
    rz.observations(rz.observe.AverageOver(["west", SQUARE]), [0.0, 0.0]),
    rz.observations(rz.observe.AverageAlong([[[0.0, 0.0], [1.0, 1.0]]]), [0.0]),
    rz.observations(rz.observe.GradientAt(PLACES, [3.0, 4.0]), [0.0, 0.0]),
    rz.observations(rz.observe.DifferenceBetween(PLACES, PLACES[::-1]), [0.0, 0.0]),
    rz.observations(rz.observe.AtPoints(PLACES), [0.0, 0.0]),
]


@pytest.fixture(scope="module")
def linear():
    return posed(*ALL)


@pytest.fixture(scope="module")
def other():
    """Kinds that are no rows of an operator."""
    return posed(
        rz.observations(rz.observe.FluxAlong(PLACES, [[1.0, 0.0], [0.0, 2.0]]), [0.0, 0.0]),
        rz.observations(rz.observe.FluxThrough(["left", "right", "bottom", "top"]), np.zeros(4)),
        rz.observations(rz.observe.LogOf(rz.observe.AtPoints(PLACES)), [0.0, 0.0]),
        dirichlet={
            side: lambda x: 1 + 2 * x[0] + 3 * x[1] for side in ("left", "right", "bottom", "top")
        },
    )


def test_all_kinds_are_exact_for_a_linear_state(linear, other):
    z = {"w": jnp.zeros(2)}
    plane = 1 + MESH.nodes @ [2.0, 3.0]
    seen = 1 + PLACES @ [2.0, 3.0]
    found = jax.jit(linear.predict)(jnp.asarray(plane), z)
    middles = [1 + 2 * 0.25 + 3 * 0.5, 1 + 2 * 0.5 + 3 * 0.45, 1 + 2 * 0.5 + 3 * 0.5]
    slopes = [(3 * 2 + 4 * 3) / 5] * 2
    wanted = [*middles, *slopes, seen[0] - seen[1], seen[1] - seen[0], *seen]
    np.testing.assert_allclose(found, wanted)
    # Without a source a plane is the solution, and what comes in on one side leaves on the other.
    found = jax.jit(other.predict)(jnp.asarray(plane), z)
    np.testing.assert_allclose(found, [-2.0, -3.0, 2.0, -2.0, 3.0, -3.0, *np.log(seen)], atol=1e-9)


def test_sensors_stand_in_the_middle_of_what_they_see(linear, other):
    wanted = [[0.25, 0.5], [0.5, 0.45], [0.5, 0.5], *PLACES, *[PLACES.mean(axis=0)] * 2, *PLACES]
    np.testing.assert_allclose(linear.observations.points, wanted)
    sides = [[0.0, 0.5], [1.0, 0.5], [0.5, 0.0], [0.5, 1.0]]
    np.testing.assert_allclose(other.observations.points, [*PLACES, *sides, *PLACES])


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [pair("laplace(marginal)", num_draws=4000), pair("gaussian-vi(surrogate)")],
    ids=lambda e: e.name,
)
def test_engines_for_values_take_rows_of_an_operator(engine):
    """Against the closed form of linear regression, from responses to each unknown."""
    averages = rz.observations(rz.observe.AverageOver([SQUARE, SQUARE[:3]]), [0.0, 0.0])
    domain, noise = rz.hierarchy(rz.rectangle((3, 3)), 2), [rz.Gaussian(0.02)] * len(ALL)
    data = (averages, *ALL[1:])
    problem = posed(*data, domain=domain, likelihood=noise, dirichlet={"boundary": 0.0})
    places = jnp.asarray([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    at = [np.asarray(problem.operator @ problem.state(one)) for one in places]
    matrix = np.stack([at[1] - at[0], at[2] - at[0]], axis=1)
    covariance = np.linalg.inv(np.eye(2) + matrix.T @ matrix / 0.02**2)
    mean = covariance @ matrix.T @ -at[0] / 0.02**2
    posterior = engine.run(problem)
    sd = np.sqrt(np.diag(covariance))
    found = np.sqrt(np.diag(posterior.coordinate_covariance()))
    np.testing.assert_allclose((posterior.coordinate_mean() - mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(found / sd, 1.0, atol=0.03)


@pytest.fixture(scope="module")
def for_few():
    """Problems that only some engines take, and what others say of them."""
    nested = rz.hierarchy(rz.rectangle((2, 2)), 2)
    seen = rz.observations(PLACES, [1.0, 2.0])
    flux = rz.observations(rz.observe.FluxAlong(PLACES, [1.0, 0.0]), [0.0, 0.0])
    equation, edge = rz.diffusion(1.0) - rz.source("f"), {"boundary": 0.0}
    twice = [rz.Experiment(equation, seen, rz.Gaussian(0.1), edge)] * 2
    return {
        "linear in the state, and there are fluxes at points": posed(flux, domain=nested),
        "noise.* it is .*Poisson": posed(seen, domain=nested, likelihood=[rz.Poisson()]),
        "takes one experiment, and there are 2": rz.inverse_problem(
            nested, experiments=twice, latents={"f": dist.Normal(0.0, 1.0)}
        ),
    }


def test_engines_say_beforehand_what_they_cannot_take(for_few):
    for message, problem in for_few.items():
        for engine in (
            pair("laplace(marginal)"),
            pair("gaussian-vi(surrogate)"),
            pair("gaussian-vi(relaxed)"),
        ):
            match = f"{engine.density.name} .*{message}.*: use the density exact"
            with pytest.raises(RieszError, match=match):
                engine.check(problem)
        assert choose_engine(problem).engine.name == "laplace"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rz.observations(rz.observe.AtPoints(PLACES), [1.0]),
            RieszError,
            "1 values for 2 values",
        ),
        (lambda: rz.observe.AverageOver("west"), RieszError, r"AverageOver\(\[area\]\)"),
        (lambda: rz.observe.DifferenceBetween(PLACES, PLACES[:1]), RieszError, "give pairs"),
        (
            lambda: posed(rz.observations(rz.observe.AverageOver(["east"]), [1.0])),
            MeshError,
            "east",
        ),
        (
            lambda: posed(rz.observations(rz.observe.GradientAt(PLACES, [0.0, 0.0]), [1.0, 1.0])),
            RieszError,
            "a direction has no length",
        ),
        (
            lambda: posed(rz.observations(rz.observe.GradientAt(PLACES, [1.0]), [1.0, 1.0])),
            RieszError,
            r"directions have shape \(1,\): give one of 2 components",
        ),
        (
            lambda: posed(rz.observations(rz.observe.CoefficientAt("v", PLACES), [1.0, 1.0])),
            RieszError,
            "'v' was measured, but is no unknown",
        ),
        (
            lambda: posed(rz.observations(rz.observe.CoefficientAt("w", PLACES), [1.0, 1.0])),
            RieszError,
            "'w' was measured, but is 2 numbers",
        ),
        (
            lambda: posed(ALL[-1], likelihood=[rz.Gaussian(0.1), rz.Gaussian(0.1)]),
            RieszError,
            "there are 1 data sets, but 2 likelihoods",
        ),
        (
            lambda: posed(rz.observations(rz.observe.AtPoints(PLACES + 1), [1.0, 1.0])),
            MeshError,
            "of the observations",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
