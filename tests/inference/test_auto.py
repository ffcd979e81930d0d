"""`auto`: where it begins, when it climbs, and what it says of that."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.pairs import pair, replace_run

from riesz.errors import EngineError, OutOfTimeError, RieszError, SolveError
from riesz.fem.terms.weakform import diffusion, reaction, source
from riesz.inference import fit as door
from riesz.inference.fit import Inadequacy, choose_engine, find_inadequacy, fit
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.method.checkpoint import AbstractCheckpoint
from riesz.notes import Note, Severity, doubts, text_note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.priors.gaussian_process import GP
from riesz.priors.kernels import LearnedScales, Matern52
from riesz.problem.posing import inverse_problem

OBSERVED = observations([[0.3, 0.4], [0.7, 0.6]], [0.1, 0.2])


def problem_on(domain, coefficient="a", *, dtype=None, **latents):
    return inverse_problem(
        domain,
        diffusion(coefficient) + reaction(1.0) - source("f"),
        latents={"f": dist.Normal(0.0, 1.0)} | latents,
        observations=OBSERVED,
        likelihood=Gaussian(0.05),
        dirichlet={"boundary": 0.0},
        dtype=dtype,
    )


@pytest.fixture(scope="module")
def small():
    return problem_on(hierarchy(rectangle((2, 2)), 2), a=dist.LogNormal(0.0, 1.0))


def test_the_curvature_at_the_mode_comes_first_and_sampling_last(small):
    choice = choose_engine(small)
    assert choice.engine.name == "laplace"
    assert [one.name for one in choice.then] == ["gaussian-vi", "mcmc"]
    assert choice.why == Note("normal_first", size=2)


def test_single_precision_is_emulated():
    rough = problem_on(hierarchy(rectangle((2, 2)), 2), 1.0, dtype=jnp.float32)
    assert choose_engine(rough).engine.name == "gaussian-vi(surrogate)"
    assert choose_engine(rough).why == Note("float32")


def test_one_mesh_in_float32_is_refused_with_what_to_do():
    with pytest.raises(SolveError, match="jax_enable_x64"):
        fit(problem_on(rectangle((2, 2)), 1.0, dtype=jnp.float32), progress=False)


def test_unknowns_are_integrated_out_where_none_or_few_are_left():
    alone = choose_engine(problem_on(rectangle((4, 4)), 1.0))
    assert alone.engine.name == "laplace(marginal)"
    assert alone.why == Note("all_linear", size=1)
    field = GP(Matern52(0.4, 2.0), 12, learned=LearnedScales(), at_nodes=True)
    choice = choose_engine(problem_on(rectangle((4, 4)), 1.0, f=field))
    assert choice.engine.name == "laplace(marginal)"
    assert choice.why == Note("few_left", left=2, size=14)
    assert [one.name for one in choice.then] == ["mcmc"]


def ending(name, history=None, note=None):
    """An engine that ends at once, with chains of this history, or fails."""

    def run(self, problem, *, seed, progress, checkpoint, deadline, devices):
        if isinstance(note, RieszError):
            raise note
        draws = EmpiricalDraws(jnp.zeros((1, 4, problem.num_coordinates)))
        notes = () if note is None else (text_note(note),)
        return Posterior(problem, draws, ExactStates(), history or {}, name, seed, notes)

    return run


ALMOST, APART = 1.0234375, 1.25  # in float32 too
R_HAT = Note("r_hat_high", value=APART)


def inadequate(engine, reason):
    return Note("engine_inadequate", engine=engine, reason=reason)


def passed(last, **lacks):
    """The account of engines that were passed over, no warning where one was adequate."""
    over = [inadequate(*one).with_severity(Severity.INFO) for one in lacks.items()]
    return (*over, Note("engine_adequate", engine=last))


@pytest.fixture
def begun(monkeypatch):
    """`auto` whose first engine leaves chains that disagree, and whose second fails."""
    replace_run(monkeypatch, "laplace", ending("laplace", {"r_hat": jnp.array([APART, 1.0])}))
    failing = ending("gaussian-vi", note=EngineError("no q."))
    replace_run(monkeypatch, "gaussian-vi", failing)


def test_an_engine_whose_posterior_will_do_is_the_last(small, monkeypatch):
    replace_run(monkeypatch, "laplace", ending("laplace", note="slow"))
    with pytest.warns(UserWarning, match="^laplace: slow$") as told:
        posterior = fit(small, seed=3, progress=False)
    assert len(told) == 1  # each note is warned of once
    assert (posterior.engine, posterior.seed) == ("laplace", 3)
    first = Note("auto_started", engine="laplace", reason=Note("normal_first", size=2))
    assert posterior.notes[1:] == (first, Note("engine_adequate", engine="laplace"))
    with pytest.warns(UserWarning, match="slow"):
        assert fit(small, "laplace", seed=3, progress=False).notes == (text_note("slow"),)


def test_auto_climbs_where_a_posterior_will_not_do(small, begun, monkeypatch):
    seen = []

    def run(self, problem, **how):
        seen.append(self.method.start)
        return ending("mcmc")(self, problem, **how)

    replace_run(monkeypatch, "mcmc", run)
    posterior = fit(small, progress=False)
    assert posterior.engine == "mcmc"
    assert isinstance(seen[0], Posterior)  # from where laplace ended
    lacks = {"laplace": R_HAT, "gaussian-vi": Note("engine_failed", error="no q.")}
    assert posterior.notes[1:] == passed("mcmc", **lacks)
    assert doubts(posterior.notes) == ()


def test_where_there_are_other_peaks_normal_distributions_are_passed_over(small, monkeypatch):
    replace_run(monkeypatch, "laplace", ending("laplace"))
    replace_run(monkeypatch, "mcmc", ending("mcmc"))
    two = Note("separate_modes", count=2)
    lacks = iter([Inadequacy(two, is_multimodal=True), None])
    monkeypatch.setattr(door, "find_inadequacy", lambda *_: next(lacks))
    notes = fit(small, progress=False).notes
    assert notes[1:] == passed("mcmc", laplace=two)


def test_an_engine_on_a_lower_peak_starts_again_from_the_higher_one(small, monkeypatch):
    starts = []

    def run(self, problem, *, checkpoint, **how):
        starts.append(self.method.start)
        assert checkpoint.restore("mode") is None
        checkpoint.keep("mode", {})
        return ending("laplace")(self, problem, checkpoint=checkpoint, **how)

    replace_run(monkeypatch, "laplace", run)
    place = jnp.array([1.0, 2.0])
    higher = Note("higher_mode", log_ratio=12.0)
    lacks = iter([Inadequacy(higher, higher_mode=place), None])
    monkeypatch.setattr(door, "find_inadequacy", lambda *_: next(lacks))
    notes = fit(small, progress=False, checkpoint=InMemory()).notes
    assert notes[1:] == passed("laplace", laplace=higher)
    assert starts[0] is None
    np.testing.assert_array_equal(starts[1], place)


class InMemory(AbstractCheckpoint):
    def __init__(self):
        self.stages = {}

    def begin(self, problem, engine, seed, settings): ...

    def restore(self, stage):
        return self.stages.get(stage)

    def keep(self, stage, state):
        self.stages[stage] = state

    def flush(self): ...


@pytest.mark.slow  # quickly: an engine on a lower peak, above
def test_a_peak_that_is_lower_than_another_will_not_do():
    """The search from the middle stays on a hill of the source that is lower than the slope."""

    def hills(x, z):
        return 5 * jnp.exp(-((z["s"] / 0.5) ** 2)) + 15 / (1 + jnp.exp(4 * (2 - z["s"])))

    def posed(values):
        return inverse_problem(
            rectangle((4, 4)),
            diffusion(1.0) - source(hills),
            latents={"s": dist.Normal(0.0, 1.0)},
            dirichlet={"boundary": 0.0},
            observations=observations([[0.3, 0.4], [0.6, 0.5]], values),
            likelihood=Gaussian(0.02),
        )

    empty = posed([0.0] * 2)
    problem = posed(empty.operator @ empty.state(jnp.array([2.0])))
    alone = fit(problem, "laplace", progress=False)
    assert abs(float(alone.coordinate_mean()[0])) < 0.1
    assert alone.check is not None
    assert alone.check.k_hat < 0.5  # of the other hill it knows nothing
    lack = find_inadequacy(alone, seed=0)
    assert lack is not None
    assert lack.why.code == "higher_mode"
    assert lack.why.values["log_ratio"] > 0
    posterior = fit(problem, progress=False)
    assert posterior.engine == "laplace"
    assert float(posterior.coordinate_mean()[0]) > 1.5


def test_what_is_left_is_told_where_nothing_will_do(small, begun, monkeypatch):
    replace_run(monkeypatch, "mcmc", ending("mcmc", {"r_hat": jnp.array([ALMOST, 1.0])}))
    notes = fit(small, progress=False).notes
    assert notes[-1] == inadequate("mcmc", Note("r_hat_high", value=ALMOST))
    assert doubts(notes) == notes[1:]


def test_an_engine_that_fails_is_passed_over_and_what_was_found_kept(small, begun, monkeypatch):
    replace_run(monkeypatch, "mcmc", ending("mcmc", note=OutOfTimeError("over in no time.")))
    posterior = fit(small, progress=False)
    assert posterior.engine == "laplace"
    over = Note("engine_failed", error="over in no time.")
    assert posterior.notes[-1] == inadequate("mcmc", over)
    replace_run(monkeypatch, "laplace", ending("laplace", note=RieszError("bends upwards.")))
    replace_run(monkeypatch, "mcmc", ending("mcmc"))
    posterior = fit(small, progress=False)
    errors = {"laplace": "bends upwards.", "gaussian-vi": "no q."}
    lacks = {engine: Note("engine_failed", error=one) for engine, one in errors.items()}
    assert posterior.notes[1:] == passed("mcmc", **lacks)


def test_a_look_that_fails_does_not_cost_the_posterior(small, begun, monkeypatch):
    def failing(posterior, seed):
        raise np.linalg.LinAlgError("no peak.")

    monkeypatch.setattr(door, "find_inadequacy", failing)
    replace_run(monkeypatch, "mcmc", ending("mcmc", note=OutOfTimeError("over in no time.")))
    posterior = fit(small, progress=False)
    assert posterior.engine == "laplace"
    assert posterior.notes[1] == inadequate("laplace", Note("adequacy_unknown", error="no peak."))


def test_auto_ends_with_what_it_has_when_the_time_is_over(small, begun, monkeypatch):
    clock = iter(range(100))  # each look takes a second
    monkeypatch.setattr("riesz.deadline.perf_counter", lambda: next(clock))
    posterior = fit(small, progress=False, time_limit=0.5)
    assert posterior.engine == "laplace"
    assert posterior.notes[-1] == Note("time_before_engine", engine="gaussian-vi")


def test_an_engine_that_takes_longer_than_there_is_time_is_left_out(small, begun, monkeypatch):
    replace_run(monkeypatch, "mcmc", ending("mcmc"))
    monkeypatch.setattr(door, "engine_seconds", lambda *_: 100.0)
    notes = fit(small, progress=False, time_limit=50.0).notes
    left_out = Note("engine_left_out", Severity.INFO, engine="gaussian-vi")
    assert notes[-2:] == (left_out, Note("engine_adequate", engine="mcmc"))


@pytest.mark.parametrize(
    ("engine", "limit", "message"),
    [
        ("auto", 0.0, "time_limit is 0.0: give seconds"),
        ("auto", math.nan, "time_limit is nan: give seconds"),
        (pair("mcmc", kernel="nuts"), -1.0, "time_limit is -1.0: give seconds"),
    ],
)
def test_a_time_that_means_nothing_is_refused(small, engine, limit, message):
    with pytest.raises(RieszError, match=message):
        fit(small, engine, time_limit=limit)


@pytest.mark.slow  # quickly: chains that disagree, above
def test_a_second_peak_is_looked_for_before_a_normal_posterior_is_taken():
    """A source at height s seen from the middle line: s and 1 - s give the same data."""

    def bump(x, z):
        return 20 * jnp.exp(-((x[0] - 0.5) ** 2 + (x[1] - z["s"]) ** 2) / (2 * 0.08**2))

    def posed(values):
        return inverse_problem(
            rectangle((16, 16)),
            diffusion(1.0) - source(bump),
            latents={"s": dist.Normal(0.45, 0.2)},
            dirichlet={"boundary": 0.0},
            observations=observations([[x, 0.5] for x in (0.2, 0.35, 0.5, 0.65, 0.8)], values),
            likelihood=Gaussian(0.005),
        )

    empty = posed([0.0] * 5)
    problem = posed(empty.operator @ empty.state(jnp.array([-1.0])))
    alone = fit(problem, "laplace", progress=False)
    assert alone.check is not None
    assert alone.check.k_hat < 0.5  # of the second peak it knows nothing
    separate = Inadequacy(Note("separate_modes", count=2), is_multimodal=True)
    assert find_inadequacy(alone, seed=0) == separate
    none = dataclasses.replace(alone, check=None)
    assert find_inadequacy(none, seed=0) is None  # nobody asked
