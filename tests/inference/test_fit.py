"""One door to all engines: which is taken, what may be set, and that it comes out the same."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.engines.emulate.engine import Emulate
from riesz.engines.table import ENGINES, check_engine, engine_class, engine_of
from riesz.errors import RieszError
from riesz.fem.terms.weakform import diffusion, source
from riesz.inference.fit import fit, note_on_first_order
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
        ("emulate", {"rounds": 10.0}, "rounds of emulate is 10.0: give a whole number"),
        ("emulate", {"rounds": True}, "rounds of emulate is True"),
        ("emulate", {"steps": 10}, "emulate has no setting 'steps'"),
        ("relax", {"epsilon_rel": 0}, "epsilon_rel of relax is 0: give a positive number"),
        ("relax", {"epsilon_rel": "guessed"}, "is 'guessed': give a positive number, 'learned'"),
        ("relax", {"surrogate": "nodal", "width": 3}, "width of relax would do nothing"),
        ("relax", {"norm": "exact", "num_patches": 3}, "num_patches of relax would do nothing"),
        ("relax", {"polishing_rounds": 0, "polishing_draws": 3}, "would do nothing"),
        ("conditional", {"num_chains": 3}, "it goes with over = 'nuts'. Leave it out"),
        ("conditional", {"over": "mode", "num_others": 3}, "it goes with over = 'laplace'"),
        ("nuts", {"linear_solver": "lu"}, "give auto, sparse-lu, dense or conjugate-gradients"),
        ("nuts", {"start": "lapace"}, r"no engine 'lapace': did you mean 'laplace'\?"),
        ("emulate", {"gram": {"diffusivity": -1.0}}, "numbers that are not negative"),
        ("auto", {"steps": 3}, "auto chooses among engines: name the one that is meant"),
    ],
)
def test_wrong_engines_and_settings_are_told(engine, settings, message):
    with pytest.raises(RieszError, match=message):
        engine_of(engine, settings)


def test_what_is_no_engine_is_told(small):
    with pytest.raises(RieszError, match=r"the engine is 3: give a value such as rz.Nuts\(\)"):
        check_engine(3)
    with pytest.raises(RieszError, match="no engine 'nut': did you mean 'nuts'"):
        fit(small, "nut")


@pytest.mark.parametrize("name", ENGINES)
def test_engines_are_values_that_hold_every_setting(name):
    engine = engine_class(name)
    assert engine.name == name
    assert engine() == engine()
    assert engine().with_settings() == engine()
    assert set(engine().settings()) == set(engine.model_fields)
    with pytest.raises(ValueError, match="frozen"):
        setattr(engine(), next(iter(engine.model_fields)), 1)


def run_to(family):
    """An engine that ends with this q at once."""

    def run(self, problem, *, seed, progress, checkpoint, deadline, devices):
        return Posterior(problem, family, ExactStates(), {}, "emulate", seed)

    return run


def test_a_q_is_checked_after_the_fit(small, monkeypatch):
    monkeypatch.setattr(Emulate, "run", run_to(full_rank(1, jnp.float64)))
    with pytest.warns(UserWarning, match="importance sampling"):
        found = fit(small, "emulate").check
    assert found is not None
    assert found.sd_ratio[0] > 1.2  # the prior is wider than the posterior
    assert fit(small, "emulate", check=False).check is None


def test_a_check_that_would_take_long_is_left_out_with_a_word_or_made_when_asked_for(
    small, monkeypatch
):
    monkeypatch.setattr(Emulate, "run", run_to(full_rank(1, jnp.float64)))
    monkeypatch.setattr("riesz.diagnose.importance.estimate_seconds", lambda *_: 60.0)
    with pytest.warns(UserWarning, match="64 draws, the fewest, would take about 64 minutes"):
        posterior = fit(small, "emulate")
    assert posterior.check is None
    assert posterior.notes == (Note("not_checked", num_draws=64, minutes=64.0),)
    with pytest.warns(UserWarning, match="importance sampling"):
        found = fit(small, "emulate", check=True).check
    assert found is not None
    assert found.num_draws == 64


def test_a_check_that_fails_does_not_lose_the_fit(small, monkeypatch):
    family = dataclasses.replace(full_rank(1, jnp.float64), mean=jnp.array([jnp.nan]))
    monkeypatch.setattr(Emulate, "run", run_to(family))
    with pytest.warns(UserWarning, match="q could not be checked: 1000 of 1000"):
        posterior = fit(small, "emulate")
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
