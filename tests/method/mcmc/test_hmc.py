"""Chains in round coordinates against posteriors known in closed form or by quadrature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.linear_gaussian import known_posterior, linear_problem
from tests.pairs import pair
from tests.stopping import check_same, stopped_and_resumed

from riesz.deadline import Deadline
from riesz.errors import OutOfTimeError, RieszError
from riesz.fem.linear.linear_solve import Dense
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import rectangle
from riesz.method.mcmc import chains
from riesz.method.mcmc.chains import (
    ChainsState,
    Plan,
    draw_windows,
    is_enough,
    remaining_blocks,
    warmup_windows,
)
from riesz.method.mcmc.diagnostics import agreement_along, note_on_modes
from riesz.method.mcmc.hamiltonian import BLOCK, Modes, init, step
from riesz.method.mcmc.mcmc import usable_modes
from riesz.method.mcmc.metric import metric_about, stack_metrics
from riesz.method.newton import default_searches
from riesz.notes import Note
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.posterior.chains import agreement
from riesz.posterior.density import AbstractDensity
from riesz.problem.posing import inverse_problem

SHORT = pair("mcmc", num_warmup=40, num_samples=150, num_searches=2, linear_solver=Dense())


def short(**given):
    return SHORT.run(linear_problem(), seed=1, **given)


@pytest.fixture(scope="module")
def sampled():
    return short()


def test_a_linear_gaussian_posterior_is_met_within_monte_carlo_error(sampled):
    mean, covariance = known_posterior()
    sd = np.sqrt(np.diag(covariance))
    effective = np.asarray(sampled.history["effective_draws"])
    errors = (np.asarray(sampled.coordinate_mean()) - mean) / sd
    assert (abs(errors) < 3.5 / np.sqrt(effective)).all(), errors
    ratios = np.sqrt(np.diag(sampled.coordinate_covariance())) / sd
    assert (abs(ratios - 1) < 0.15).all(), ratios


def test_a_normal_posterior_is_rotated_without_error(sampled):
    """No step is refused, however long: the Gaussian part is solved exactly."""
    history = sampled.history
    np.testing.assert_allclose(history["accept_probability"], 1.0, atol=1e-6)
    assert history["num_steps"].max() <= 6
    assert sampled.notes == ()
    assert (history["effective_draws"] > 300).all()
    assert history["num_gradients"] > history["num_steps"].sum()


@pytest.mark.slow
def test_chains_that_are_stopped_go_on_to_the_same_draws(sampled, tmp_path):
    again, stops = stopped_and_resumed(
        lambda checkpoint: short(checkpoint=checkpoint), tmp_path / "checkpoint", blocks=3
    )
    assert stops >= 3
    check_same(again, sampled)


def test_windows_hold_all_transitions_once():
    for num_warmup, num_samples in ((300, 500), (1, 1), (3, 25), (40, 7), (300, None)):
        warmup = warmup_windows(num_warmup)
        draws = draw_windows(Plan(num_warmup, num_samples, 0.8))
        parts = [*warmup, *draws]
        assert [one.start for one in parts] == [0, *(one.end for one in parts[:-1])]
        assert warmup[-1].end == num_warmup
        most = chains.MOST_DRAWS if num_samples is None else num_samples
        assert parts[-1].end == num_warmup + most
        counted = [count for one in parts for _, count in remaining_blocks(one, 0)]
        assert sum(counted) == num_warmup + most
        assert max(counted) <= BLOCK
        left = [start for one in parts for start, _ in remaining_blocks(one, parts[0].end)]
        assert left[0] == parts[0].end


def test_draws_are_enough_where_chains_agree_and_are_worth_a_thousand():
    metric = metric_about(jnp.zeros(3), jnp.eye(3)[:, :1], jnp.ones(1))
    peaks = Modes(stack_metrics([metric]), jnp.zeros(1))
    rng = np.random.default_rng(0)

    def with_draws(draws):
        return is_enough(ChainsState([], peaks, (draws,)))

    assert with_draws(rng.normal(size=(4, 500, 3)))
    assert not with_draws(rng.normal(size=(4, 200, 3)))  # too few
    shifts = np.array([0.0, 0.0, 0.0, 1.0])
    assert not with_draws(rng.normal(size=(4, 500, 3)) + shifts[:, None, None])


def test_a_run_that_is_out_of_time_has_draws_to_show_or_says_so(monkeypatch):
    blocks, moved = [0.0], chains.step_chains

    def slow(*arguments):  # a second a block: four of warm-up, and two of draws
        blocks[0] += 1
        return moved(*arguments)

    monkeypatch.setattr(chains, "step_chains", slow)
    monkeypatch.setattr("riesz.deadline.perf_counter", lambda: blocks[0])
    with pytest.raises(OutOfTimeError, match="in the warm-up"):
        short(deadline=Deadline(2.5))
    monkeypatch.setattr(chains, "FEWEST_IN_TIME", 20)
    blocks[0] = 0.0
    found = short(deadline=Deadline(5.5))
    assert found.notes[0] == Note("time_in_chains", num_draws=40, num_chains=4)
    assert found.distribution.by_chain.shape[:2] == (4, 40)


def test_several_peaks_are_told_and_whether_chains_know_their_weights():
    assert note_on_modes(np.zeros((2, 10), int), 1) == ()
    (note,) = note_on_modes(np.tile([0, 0, 0, 1], (4, 30)), 2)
    assert note == Note("modes", count=2, shares=(0.75, 0.25), changes=236, is_rare=False)
    (note,) = note_on_modes(np.repeat([[0], [1]], 50, axis=1), 2)
    assert note == Note("modes", count=2, shares=(0.5, 0.5), changes=0, is_rare=True)


def test_chains_that_disagree_along_one_direction_of_many_coordinates_are_told():
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.normal(size=(400, 2)))[0]
    draws = rng.normal(size=(4, 200, 400))
    assert agreement_along(draws, directions)[1] == ()
    draws[0] += 4 * directions[:, 1]
    apart = agreement(draws).r_hat
    found, (note, _) = agreement_along(draws, directions)
    assert note.values["unknown"] == "direction 2 that data tell of"
    assert found["r_hat_along"][1] > 1.3
    assert np.median(apart) < 1.1


class TwoNormals(AbstractDensity):
    """Two peaks of equal weight and this width."""

    width: float = eqx.field(static=True)

    def log_likelihood(self, coordinates):
        apart = jnp.stack([coordinates - 3.0, coordinates + 3.0]) / self.width
        return jax.scipy.special.logsumexp(-0.5 * jnp.sum(apart**2, axis=1)) + (
            0.5 * coordinates @ coordinates
        )


class NarrowInWide(AbstractDensity):
    """A twentieth of the mass is as wide as the prior, the rest narrow and off its middle."""

    def log_likelihood(self, coordinates):
        narrow = -0.5 * jnp.sum(((coordinates - 1.0) / 0.02) ** 2) - 2 * jnp.log(0.02)
        wide = -0.5 * jnp.sum(coordinates**2)
        return jnp.logaddexp(jnp.log(0.95) + narrow, jnp.log(0.05) + wide) - wide


def test_with_few_unknowns_a_wide_part_about_a_narrow_peak_is_visited_as_often_as_it_weighs():
    """As errors with heavy tails leave one: no trajectory from the peak gets there."""
    density, count = NarrowInWide(), jnp.asarray(BLOCK)
    peak = metric_about(jnp.ones(2), jnp.eye(2), jnp.full(2, 1 / 0.02**2 - 1))
    peaks = Modes(stack_metrics([peak]), jnp.zeros(1))
    chain, places = init(density, jax.random.key(0), jnp.ones(2)), []
    for _ in range(300):
        chain, seen = step(density, peaks, chain, jnp.asarray(0.8), jnp.asarray(False), count)
        places.append(seen.transition.coordinates)
    far = np.linalg.norm(np.concatenate(places) - 1.0, axis=1) > 0.2
    assert abs(far.mean() - 0.05) < 0.02


@pytest.mark.slow  # quickly: what is told of peaks, above
def test_peaks_are_kept_apart_only_where_jumps_between_them_work():
    unit = metric_about(jnp.zeros(8), jnp.eye(8), jnp.zeros(8))
    each = [eqx.tree_at(lambda m: m.centre, unit, jnp.full(8, at)) for at in (-3.0, 3.0)]
    peaks = Modes(stack_metrics(each), jnp.log(jnp.array([0.4, 0.6])))
    key = jax.random.key(0)
    assert usable_modes(TwoNormals(1.0), peaks, key) is peaks
    alone = usable_modes(TwoNormals(0.2), peaks, key)
    assert alone.count == 1
    np.testing.assert_array_equal(alone.metrics.centre[0], np.full(8, 3.0))


def test_an_impossible_start_is_refused():
    with pytest.raises(RieszError, match="start has shape"):
        SHORT.with_settings(start=jnp.zeros(2)).run(linear_problem())


@pytest.fixture(scope="module")
def two_peaks():
    """A source at (0.5, s), seen on the line y = 0.5: s and 1 - s give the same data."""

    def bump(x, z):
        return 20 * jnp.exp(-((x[0] - 0.5) ** 2 + (x[1] - z["s"]) ** 2) / (2 * 0.08**2))

    points = np.array([[x, 0.5] for x in (0.2, 0.35, 0.5, 0.65, 0.8)])

    def posed(values):
        return inverse_problem(
            rectangle((16, 16)),
            diffusion(1.0) - source(bump),
            latents={"s": dist.Normal(0.45, 0.2)},
            dirichlet={"boundary": 0.0},
            observations=observations(points, values),
            likelihood=Gaussian(0.005),
        )

    empty = posed(np.zeros(5))
    clean = np.asarray(empty.operator @ empty.state(jnp.array([-1.0])))
    return posed(clean + 0.005 * np.random.default_rng(0).normal(size=5))


@pytest.mark.slow
def test_both_of_two_peaks_are_found_with_their_weights(two_peaks):
    grid = jnp.linspace(-3.0, 4.0, 1401)[:, None]
    logs = np.asarray(jax.jit(lambda rows: jax.lax.map(two_peaks.log_prob, rows))(grid))
    weights = np.exp(logs - logs.max())
    above = weights[0.45 + 0.2 * np.asarray(grid)[:, 0] > 0.5].sum() / weights.sum()
    assert 0.2 < above < 0.5  # 0.35, by quadrature
    engine = pair("mcmc", num_warmup=100, num_samples=200)
    for seed in range(3):
        posterior = engine.run(two_peaks, seed=seed)
        found = np.mean(np.asarray(posterior.values("s")) > 0.5)
        assert abs(found - above) < 0.1, (seed, found, above)
        assert (posterior.notes[0].code, posterior.notes[0].values["count"]) == ("modes", 2)
        assert posterior.history["r_hat"].max() < 1.05


@pytest.mark.slow
def test_one_search_leaves_one_peak_and_chains_that_agree_about_it(two_peaks):
    """What no search finds and no chain reaches is not known: hence more than one search."""
    alone = pair("mcmc", num_warmup=50, num_samples=50, num_searches=1).run(two_peaks)
    assert np.unique(alone.history["peak"]).size == 1
    assert default_searches(two_peaks.num_coordinates) > 1
