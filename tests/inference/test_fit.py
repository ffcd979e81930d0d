"""One door to all engines: which is taken, what may be set, and that it comes out the same."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import replace_run

import riesz as rz
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.inference.fit import fit, note_on_first_order
from riesz.inference.table import (
    AMORTISE,
    DENSITIES,
    METHODS,
    RENAMED,
    build_density,
    build_method,
    check_engine,
    class_of,
    engine_of,
)
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.notes import Note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.family import full_rank
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.problem.posing import inverse_problem
from riesz.progress import progress_bar

OBSERVED = observations([[0.3, 0.4], [0.7, 0.6]], [0.1, 0.2])


def problem_on(domain, *, dtype=None, **latents):
    return inverse_problem(
        domain,
        diffusion(1.0) - source("f"),
        latents={"f": dist.Normal(0.0, 1.0)} | latents,
        observations=OBSERVED,
        likelihood=Gaussian(0.05),
        dirichlet={"boundary": 0.0},
        dtype=dtype,
    )


@pytest.fixture(scope="module")
def small():
    return problem_on(hierarchy(rectangle((2, 2)), 2))


def test_bars_are_drawn_on_the_error_stream(capfd):
    with progress_bar(progress=True) as shown:
        shown.add_task("chain 1", total=1, terms="")
    with progress_bar(progress=False) as hidden:
        hidden.add_task("chain 2", total=1, terms="")
    written = capfd.readouterr()
    assert (written.out, "chain 1" in written.err, "chain 2" in written.err) == ("", True, False)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "laplas",
            {},
            r"no method 'laplas': did you mean 'laplace'\? It may be auto, laplace, gaussian-vi,",
        ),
        ("mcmc", {"num_sample": 5}, r"mcmc has no setting 'num_sample': .*'num_samples'\?"),
        ("mcmc", {"num_samples": 0}, "num_samples of mcmc is 0: give a whole number of at least 1"),
        ("mcmc", {"dense_mass": 1}, "dense_mass of mcmc is 1: give true or false"),
        ("mcmc", {"target_accept": 1.5}, "is 1.5: give a number between 0 and 1"),
        ("mcmc", {"kernel": "gibbs"}, "kernel of mcmc is 'gibbs': give hmc or nuts"),
        ("surrogate", {"rounds": 10.0}, "rounds of surrogate is 10.0: give a whole number"),
        ("surrogate", {"rounds": True}, "rounds of surrogate is True"),
        ("surrogate", {"steps": 10}, "surrogate has no setting 'steps'"),
        ("relaxed", {"epsilon_rel": 0}, "epsilon_rel of relaxed is 0: give a positive number"),
        (
            "relaxed",
            {"epsilon_rel": "guessed"},
            "'guessed': give a positive number or 'learned'",
        ),
        ("mcmc", {"max_tree_depth": 3}, "max_tree_depth of mcmc would do nothing"),
        ("mcmc", {"dense_mass": False}, "it goes with kernel = 'nuts'. Leave it out"),
        ("mcmc", {"kernel": "nuts", "num_searches": 3}, "it goes with kernel = 'hmc'"),
        ("marginal", {"at_mode": True, "num_values": 3}, "num_values of marginal would do nothing"),
        ("exact", {"linear_solver": "lu"}, "give auto, sparse-lu, dense or conjugate-gradients"),
        ("mcmc", {"start": "lapace"}, r"no method 'lapace': did you mean 'laplace'\?"),
        ("surrogate", {"gram": {"diffusivity": -1.0}}, "numbers that are not negative"),
        ("auto", {"steps": 3}, "auto chooses among methods: name the one that is meant"),
    ],
)
def test_wrong_methods_and_settings_are_told(name, settings, message):
    with pytest.raises(RieszError, match=message):
        (build_density if name in DENSITIES else build_method)(name, settings)


@pytest.mark.parametrize(
    ("method", "density", "message"),
    [
        ("mcmc", "exakt", r"no density 'exakt': did you mean 'exact'\? It may be exact, marginal,"),
        ("mcmc(exakt)", None, r"no density 'exakt': did you mean 'exact'\?"),
        ("auto", "exact", "auto chooses the density, too: name a method"),
        (rz.Amortise(), "exact", "amortise has a density of its own: leave density out"),
        (
            rz.Laplace(max_steps=3),
            "marginal",
            "max_steps of laplace would do nothing: the mode",
        ),
        (rz.MCMC(num_chains=3), rz.Marginal(at_mode=True), "num_chains of mcmc would do nothing"),
        (rz.GaussianVI(max_steps=3), "surrogate", "max_steps of gaussian-vi would do nothing"),
    ],
)
def test_pairs_that_cannot_be_are_told(small, method, density, message):
    with pytest.raises(RieszError, match=message):
        fit(small, method, density=density)


@pytest.mark.parametrize("name", RENAMED)
def test_an_engine_of_earlier_versions_is_told_in_todays_words(small, name):
    with pytest.raises(RieszError, match=f"the engine '{name}' is now rz"):
        fit(small, name)


def test_what_is_no_method_is_told(small):
    with pytest.raises(RieszError, match=r"the method is 3: give a value such as rz.MCMC\(\)"):
        check_engine(3)
    with pytest.raises(RieszError, match=r"the density is 3: give a value such as rz.Surrogate"):
        check_engine("mcmc", 3)
    with pytest.raises(RieszError, match="no method 'mcm': did you mean 'mcmc'"):
        fit(small, "mcm")


@pytest.mark.parametrize("name", [*METHODS, *DENSITIES])
def test_methods_and_densities_are_values_that_hold_every_setting(name):
    kind = class_of(name)
    assert kind.name == name
    assert kind() == kind()
    assert kind().with_settings() == kind()
    with pytest.raises(ValueError, match="frozen"):
        setattr(kind(), next(iter(kind.model_fields)), 1)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("method", [name for name in METHODS if name != AMORTISE])
def test_engines_are_values_with_the_settings_of_both_parts(method, density):
    engine = engine_of(method, density)
    assert engine == engine_of(engine.name)
    parts = (method, density)
    every = {f"{name}.{setting}" for name in parts for setting in class_of(name).model_fields}
    assert set(engine.settings()) == every


def run_to(family):
    """An engine that ends with this q at once."""

    def run(self, problem, *, seed, progress, checkpoint, deadline, devices):
        return Posterior(problem, family, ExactStates(), {}, "gaussian-vi(surrogate)", seed)

    return run


def test_a_q_is_checked_after_the_fit(small, monkeypatch):
    replace_run(monkeypatch, "gaussian-vi(surrogate)", run_to(full_rank(1, jnp.float64)))
    with pytest.warns(UserWarning, match="importance sampling"):
        found = fit(small, "gaussian-vi(surrogate)").check
    assert found is not None
    assert found.sd_ratio[0] > 1.2  # the prior is wider than the posterior
    assert fit(small, "gaussian-vi(surrogate)", check=False).check is None


def test_a_check_that_would_take_long_is_left_out_with_a_word_or_made_when_asked_for(
    small, monkeypatch
):
    replace_run(monkeypatch, "gaussian-vi(surrogate)", run_to(full_rank(1, jnp.float64)))
    monkeypatch.setattr("riesz.density.exact.estimate_seconds", lambda *_: 60.0)
    with pytest.warns(UserWarning, match="64 draws, the fewest, would take about 64 minutes"):
        posterior = fit(small, "gaussian-vi(surrogate)")
    assert posterior.check is None
    assert posterior.notes == (Note("not_checked", num_draws=64, minutes=64.0),)
    with pytest.warns(UserWarning, match="importance sampling"):
        found = fit(small, "gaussian-vi(surrogate)", check=True).check
    assert found is not None
    assert found.num_draws == 64


def test_a_check_that_fails_does_not_lose_the_fit(small, monkeypatch):
    family = dataclasses.replace(full_rank(1, jnp.float64), mean=jnp.array([jnp.nan]))
    replace_run(monkeypatch, "gaussian-vi(surrogate)", run_to(family))
    with pytest.warns(UserWarning, match="q could not be checked: 1000 of 1000"):
        posterior = fit(small, "gaussian-vi(surrogate)")
    assert (posterior.notes[0].code, posterior.notes[0].values["what"]) == ("check_failed", "q")


def test_a_posterior_says_which_unknowns_no_gradient_sees():
    """A region whose edge is unknown, and sharp: a wall of another conductivity."""
    problem = inverse_problem(
        rectangle((3, 3)),
        diffusion(lambda x, z: jnp.where(x[0] < z["edge"], 1.0, 3.0)) - source(1.0) - source("f"),
        latents={"edge": dist.Uniform(0.0, 1.0), "f": dist.Normal(1.0, 1.0)},
        observations=OBSERVED,
        likelihood=Gaussian(0.05),
        dirichlet={"boundary": 0.0},
    )
    with pytest.warns(UserWarning, match="the data do not depend smoothly on 'edge'"):
        posterior = fit(problem, "laplace", check=False, progress=False)
    assert posterior.notes[-1] == Note("no_derivative", names=("edge",))


@pytest.mark.parametrize(
    ("scheme", "step", "is_told"),
    [("euler", 30.0, True), ("euler", 3.0, False), ("sdirk2", 30.0, False)],
)
def test_steps_of_euler_as_long_as_a_series_is_held_are_told(scheme, step, is_told):
    months = np.arange(0.0, 360.0, 30.0)
    problem = rz.inverse_problem(
        rz.interval(2),
        rz.storage("S") + rz.diffusion(1.0) - rz.source(rz.series(months, np.sin(months))),
        latents={"S": dist.LogNormal(0.0, 1.0)},
        dirichlet={"boundary": 0.0},
        observations=rz.observations([0.5, 0.5], [0.1, 0.2], times=[90.0, 180.0]),
        likelihood=rz.Gaussian(0.1),
        times=np.arange(0.0, 361.0, step),
        initial=0.0,
        scheme=scheme,
    )
    found = note_on_first_order(problem)
    assert found == (Note("first_order", step=step, period=30.0),) * is_told
