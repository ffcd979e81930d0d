"""Time limits are kept by every engine, whatever phase they end in; a solve takes a second here."""

import re
import warnings
from threading import Lock

import numpyro.distributions as dist
import pytest
from tests.pairs import pair

import riesz as rz
from riesz.deadline import Deadline, check_clock
from riesz.density.surrogate import rounds
from riesz.errors import OutOfTimeError
from riesz.fem.linear import host_lu
from riesz.method import training

OBSERVED = rz.observations([[0.3, 0.4], [0.7, 0.6]], [0.1, 0.2])


def posed(diffusivity, **latents):
    return rz.inverse_problem(
        rz.hierarchy(rz.rectangle((2, 2)), 2),
        rz.diffusion(diffusivity) + rz.reaction(1.0) - rz.source("f"),
        latents={"f": dist.Normal(0.0, 1.0)} | latents,
        observations=OBSERVED,
        likelihood=rz.Gaussian(0.05),
        dirichlet={"boundary": 0.0},
    )


@pytest.fixture(scope="module")
def small():
    return posed("a", a=dist.LogNormal(0.0, 1.0))


class Clock:
    """Time passes while an equation is solved, or a surrogate fitted, and else not."""

    def __init__(self):
        self.now, self.lock = 0.0, Lock()

    def __call__(self):
        return self.now

    def slowed(self, function, seconds=1.0):
        def slow(*arguments, **named):
            with self.lock:
                self.now += seconds
            return function(*arguments, **named)

        return slow


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in ("riesz.deadline", "riesz.method.training", "riesz.density.surrogate.rounds"):
        monkeypatch.setattr(f"{module}.perf_counter", clock)
    monkeypatch.setattr(host_lu, "solve_batch", clock.slowed(host_lu.solve_batch))
    return clock


def ended(problem, engine, limit, clock):
    """What a fit ends with: its notes, or an error that says that the time was over."""
    begun = clock.now
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            posterior = rz.fit(problem, engine, progress=False, time_limit=limit)
            found = " ".join(map(str, posterior.notes))
    except OutOfTimeError as error:
        found = str(error)
    assert 0.5 * limit < clock.now - begun <= 1.1 * limit + 2
    assert "time" in found
    return found


QUICK = [
    ("laplace", 12.0, "before laplace had a posterior|mode ended out of time|not be checked"),
    ("laplace", 100.0, "q could not be checked: the time was over before the end of the check"),
    ("auto", 6.0, r"the time was over (in the search for the mode|before [\w-]+ had a posterior)"),
    ("auto", 150.0, "auto took laplace first.*the time was over before gaussian-vi"),
]
SLOW = [
    ("gaussian-vi", 100.0, "before gaussian-vi had a posterior|first step of q"),
    ("gaussian-vi", 1000.0, "and the time was over"),
    ("mcmc", 20.0, "before mcmc had a posterior|in the warm-up"),
    ("mcmc", 2000.0, "in the warm-up, too early for a posterior"),
    (rz.MCMC(kernel="nuts"), 200.0, "the time was over before mcmc had a posterior: allow more"),
    (
        "mcmc(reduced-basis)",
        200.0,
        r"was over before mcmc\(reduced-basis\) had a posterior",
    ),
    (
        "gaussian-vi(relaxed)",
        100.0,
        r"before gaussian-vi\(relaxed\) had|first step of q",
    ),
    ("auto", 1500.0, "the time was over"),
]


@pytest.mark.parametrize(
    ("engine", "limit", "words"),
    [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)],
)
def test_a_slow_solve_does_not_outrun_the_limit(small, clock, engine, limit, words):
    assert re.search(words, ended(small, engine, limit, clock))


@pytest.mark.parametrize(("limit", "words"), [(30.0, "too narrow"), (4.0, "the time was over")])
def test_what_marginal_has_at_its_mode_is_marked_as_too_narrow(clock, limit, words):
    assert words in ended(posed("a", a=dist.LogNormal(0.0, 1.0)), "laplace(marginal)", limit, clock)


def test_surrogates_are_not_fitted_longer_than_there_is_time(small, clock, monkeypatch):
    monkeypatch.setattr(rounds, "fit_around", clock.slowed(rounds.fit_around, 10.0))
    engine = pair("gaussian-vi(surrogate)", tries_states=False, readout_batches=4)
    assert "the time was over after 1 rounds" in ended(small, engine, 15.0, clock)


def test_training_ends_at_the_block_for_which_there_is_no_time(small, clock, monkeypatch):
    monkeypatch.setattr(training, "run_block", clock.slowed(training.run_block, 7.0))
    sizes = {"width": 4, "features": 4, "patch_nodes": 9, "num_samples": 4, "block_steps": 5}
    engine = rz.Amortise(**sizes, steps=100, num_data=8, num_proposals=3, num_examples=20)
    assert "before amortise had a posterior" in ended(small, engine, 60.0, clock)


def test_a_limit_within_a_limit_ends_what_is_inside():
    outer = Deadline.after(1000.0)
    with outer.enforce("outside"):
        check_clock()
        with (
            pytest.raises(OutOfTimeError, match="the time was over inside: allow more"),
            outer.sooner(0.1).enforce("inside"),
        ):
            check_clock(needed=500.0)
        check_clock(needed=500.0)
        with pytest.raises(OutOfTimeError, match="at once"), Deadline(0.0).enforce("at once"):
            raise AssertionError("no work is begun without time for it")
    check_clock(needed=1e9)
