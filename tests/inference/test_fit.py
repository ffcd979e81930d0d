"""One door to all engines: which is taken, what may be set, and that it comes out the same."""

import dataclasses

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

from riesz.engines.emulate.settings import EmulateSettings
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.inference import fit as fit_module
from riesz.inference.fit import ENGINES, check_settings, choose_engine, fit
from riesz.latent.gaussian_process import GP
from riesz.latent.kernels import Matern52
from riesz.latent.scales import LearnedScales
from riesz.mesh.refine import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.family import EmpiricalDraws, full_rank
from riesz.posterior.posterior import Posterior
from riesz.posterior.states import ExactStates
from riesz.problem.problem import inverse_problem

OBSERVED = observations([[0.3, 0.4], [0.7, 0.6]], [0.1, 0.2])


def problem_on(domain, *, rim=0.0, dtype=None, **latents):
    return inverse_problem(
        domain,
        diffusion(1.0) - source("f"),
        latents={"f": dist.Normal(0.0, 1.0)} | latents,
        observations=OBSERVED,
        likelihood=Gaussian(0.05),
        dirichlet={"boundary": rim},
        dtype=dtype,
    )


@pytest.fixture(scope="module")
def small():
    return problem_on(hierarchy(rectangle((2, 2)), 2))


def test_few_unknowns_on_a_small_mesh_are_sampled(small):
    choice = choose_engine(small)
    assert choice.engine == "nuts"
    assert "1 unknown number and 25 nodes" in choice.why


def test_many_unknowns_or_nodes_are_emulated(small, monkeypatch):
    monkeypatch.setattr(fit_module, "FEW_UNKNOWNS", 0)
    monkeypatch.setattr(fit_module, "num_others", lambda problem: 1)
    assert choose_engine(small).engine == "emulate"
    assert "1 unknown number, more than 0" in choose_engine(small).why
    monkeypatch.setattr(fit_module, "FEW_UNKNOWNS", 10)
    monkeypatch.setattr(fit_module, "SMALL_MESH", 24)
    assert "25 nodes, more than 24" in choose_engine(small).why


def test_an_engine_that_cannot_is_not_chosen():
    single = problem_on(rectangle((2, 2)))
    assert "no coarser levels" in choose_engine(single).why
    curved = problem_on(hierarchy(rectangle((2, 2)), 2), rim="g", g=dist.LogNormal(0.0, 1.0))
    assert choose_engine(curved).engine == "nuts"
    assert "Dirichlet values" in choose_engine(curved).why
    rough = problem_on(hierarchy(rectangle((2, 2)), 2), dtype=jnp.float32)
    assert choose_engine(rough).engine == "emulate"
    assert "float64" in choose_engine(rough).why


def test_on_a_single_mesh_most_unknowns_may_be_integrated_out(monkeypatch):
    single = problem_on(rectangle((2, 2)))
    monkeypatch.setattr(fit_module, "FEW_UNKNOWNS", 0)
    monkeypatch.setattr(fit_module, "num_others", lambda problem: 0)
    assert choose_engine(single).engine == "conditional"
    monkeypatch.setattr(fit_module, "num_others", lambda problem: 1)
    assert choose_engine(single).engine == "nuts"


def test_auto_takes_conditional_for_a_source_and_some_scales_on_one_mesh():
    field = GP(Matern52(0.4, 2.0), 12, learned=LearnedScales(), at_nodes=True)
    choice = choose_engine(problem_on(rectangle((4, 4)), f=field))
    assert choice.engine == "conditional"
    assert "all but 2 of 14 unknown numbers can be integrated out" in choice.why


def test_auto_runs_the_chosen_engine_and_says_so(small, monkeypatch):
    def run(job):
        assert (job.quiet, job.settings) == (True, {})
        draws = EmpiricalDraws(jnp.zeros((1, 4, 1)))
        return Posterior(job.problem, draws, ExactStates(), {}, "nuts", job.seed, ("slow",))

    monkeypatch.setitem(ENGINES, "nuts", dataclasses.replace(ENGINES["nuts"], run=run))
    posterior = fit(small, seed=3, quiet=True)
    assert posterior.seed == 3
    assert posterior.notes[0] == "slow"
    assert posterior.notes[1].startswith("auto took the engine nuts: with 1 unknown number and 25")
    assert fit(small, "nuts", seed=3, quiet=True).notes == ("slow",)


@pytest.mark.parametrize(
    ("engine", "settings", "message"),
    [
        (
            "nut",
            {},
            r"no engine 'nut': did you mean 'nuts'\? It may be auto, emulate, relax, laplace,",
        ),
        ("nuts", {"num_sample": 5}, r"nuts has no setting 'num_sample': .*'num_samples'\?"),
        ("nuts", {"num_samples": 0}, "num_samples of nuts is 0: give a whole number of at least 1"),
        ("nuts", {"dense_mass": 1}, "dense_mass of nuts is 1: give true or false"),
        ("nuts", {"target_accept": 1.5}, "is 1.5: give a number between 0 and 1"),
        ("emulate", {"steps": 10.0}, "steps of emulate is 10.0: give a whole number"),
        ("emulate", {"steps": True}, "steps of emulate is True"),
        ("relax", {"epsilon_rel": 0}, "epsilon_rel of relax is 0: give a positive number"),
        ("auto", {"steps": 3}, r"settings were given \(steps\) without an engine"),
    ],
)
def test_wrong_engines_and_settings_are_told(small, engine, settings, message):
    with pytest.raises(RieszError, match=message):
        fit(small, engine, **settings)


def test_every_default_is_allowed():
    for name, engine in ENGINES.items():
        check_settings(name, {k: v for k, v in engine.defaults.items() if v is not None})
    assert ENGINES["emulate"].defaults["steps"] == EmulateSettings().steps
    check_settings("emulate", {"patience": 3, "prior_steps": 0})
    check_settings("relax", {"epsilon_rel": 2})


def run_to(family):
    """An engine that ends with this q at once."""

    def run(job):
        return Posterior(job.problem, family, ExactStates(), {}, "emulate", job.seed)

    return dataclasses.replace(ENGINES["emulate"], run=run)


def test_a_q_is_checked_after_the_fit(small, monkeypatch):
    monkeypatch.setitem(ENGINES, "emulate", run_to(full_rank(1, jnp.float64)))
    with pytest.warns(UserWarning, match="importance sampling"):
        found = fit(small, "emulate").check
    assert found is not None
    assert found.sd_ratio[0] > 1.2  # the prior is wider than the posterior
    assert fit(small, "emulate", check=False).check is None
    monkeypatch.setitem(fit_module.CHECKED_MESH, 2, 24)
    assert fit(small, "emulate").check is None
    with pytest.warns(UserWarning, match="importance sampling"):
        assert fit(small, "emulate", check=True).check is not None


def test_a_check_that_fails_does_not_lose_the_fit(small, monkeypatch):
    family = dataclasses.replace(full_rank(1, jnp.float64), mean=jnp.array([jnp.nan]))
    monkeypatch.setitem(ENGINES, "emulate", run_to(family))
    with pytest.warns(UserWarning, match="q could not be checked: 1000 of 1000"):
        posterior = fit(small, "emulate")
    assert "could not be checked" in posterior.notes[0]
