"""Many unknowns end in a posterior or in a plain word, whichever engine is asked.

A log-diffusivity of 64 Karhunen-Loeve terms, 100 sensors and two per cent of noise, ten data sets:
short runs on a coarse mesh, of which nothing is asked but that they end as they should.
"""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from tests.pairs import pair

from riesz.amortise.engine import Amortise
from riesz.density.engine import Engine
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.inference.fit import fit
from riesz.inference.table import DENSITIES, METHODS
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.kernels import Matern32
from riesz.problem.posing import inverse_problem

TERMS, SENSORS = 64, 100
CHAINS = {"num_warmup": 5, "num_samples": 5, "num_chains": 2}
SHORT = {
    "gaussian-vi(surrogate)": pair("gaussian-vi(surrogate)", rounds=2),
    "gaussian-vi(relaxed)": pair("gaussian-vi(relaxed)", max_steps=2, num_draws=16, num_curved=2),
    "laplace": pair("laplace", max_steps=20),
    "gaussian-vi": pair("gaussian-vi", max_steps=2),
    "laplace(marginal)": pair("laplace(marginal)"),
    "nuts": pair("mcmc", kernel="nuts", max_tree_depth=3, **CHAINS),
    "mcmc": pair("mcmc", num_searches=1, **CHAINS),
    "mcmc(reduced-basis)": pair(
        "mcmc(reduced-basis)",
        num_snapshots=40,
        num_warmup=5,
        num_samples=5,
        num_searches=1,
    ),
    "amortise": Amortise(width=8, features=8, steps=20, readout_batches=2),
}


def posed(seed: int):
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.05, 0.95, (SENSORS, 2))
    field = KarhunenLoeve(Matern32(length_scale=0.2), num_terms=TERMS, transform=jnp.exp)
    meshes = hierarchy(rectangle((4, 4)), 3)

    def with_data(values, noise_sd):
        return inverse_problem(
            meshes,
            diffusion("a") - source(1.0),
            latents={"a": field},
            dirichlet={"boundary": 0.0},
            observations=observations(points, values),
            likelihood=Gaussian(noise_sd),
        )

    empty = with_data(np.zeros(SENSORS), 1.0)
    clean = np.asarray(empty.operator @ empty.state(jnp.asarray(rng.normal(size=TERMS))))
    noise_sd = 0.02 * float(np.abs(clean).max())
    return with_data(clean + noise_sd * rng.normal(size=SENSORS), noise_sd)


def test_all_methods_and_densities_are_tried():
    pairs = [one for one in SHORT.values() if isinstance(one, Engine)]
    assert {one.method.name for one in pairs} | {Amortise.name} == set(METHODS)
    assert {one.density.name for one in pairs} == set(DENSITIES)


@pytest.mark.slow
@pytest.mark.parametrize("engine", SHORT)
def test_an_engine_ends_with_numbers_or_a_plain_word(engine):
    for seed in range(2 if engine == "gaussian-vi(relaxed)" else 10):  # of minutes each
        assert ends_well(posed(seed), SHORT[engine]), seed


def ends_well(problem, engine) -> bool:
    """Numbers, or a message that says what was found and what to do."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = fit(problem, engine, progress=False)
    except RieszError as error:
        return len(str(error)) > 40
    return bool(np.isfinite(np.asarray(posterior.coordinate_mean())).all())
