"""Monthly stresses with a step a month: what is stored must not depend on the steps."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import riesz as rz
from riesz.fem.default_solver import choose_solver
from riesz.fem.time.time_stepping import integrate_in_time

MONTHS, STORAGE, TRANSMISSIVITY, NOISE = 60, 0.1, 60.0, 0.02
ENDS = 30.0 * np.arange(MONTHS + 1)
RECHARGE = (1 + np.cos(np.pi * np.arange(MONTHS) / 6)) * np.random.default_rng(1).lognormal(
    np.log(1e-3), 0.5, MONTHS
)
SPACE = rz.P1(rz.interval(np.linspace(0.0, 1000.0, 11)))
EQUATION = rz.storage("s") + rz.diffusion("k") - rz.source(rz.series(ENDS[:-1], RECHARGE))
PLACES = np.array([250.0, 500.0, 950.0])


def heads(steps, logs):
    """At the ends of months, by so many steps in each."""
    times = np.linspace(0.0, ENDS[-1], steps * MONTHS + 1)
    problem = rz.transient_problem(SPACE, EQUATION, {"left": 10.0}, times=times, initial=10.0)
    operator = rz.fem.point_operator(SPACE, PLACES[:, None])
    z = {"s": STORAGE * jnp.exp(logs[0]), "k": TRANSMISSIVITY * jnp.exp(logs[1])}
    found = integrate_in_time(
        problem, z, choose_solver(problem.step), lambda state, _: operator @ state
    )
    return found.recorded[::steps].ravel()


def test_storage_from_monthly_heads_is_that_of_short_steps_within_its_sd():
    """Of the normal posterior about the truth: how far the error of the steps moves its mean."""
    truth = jnp.zeros(2)
    off = heads(24, truth) - heads(1, truth)
    slopes = jax.jacfwd(partial(heads, 1))(truth)
    covariance = jnp.linalg.inv(slopes.T @ slopes / NOISE**2 + jnp.eye(2))
    moved = covariance @ slopes.T @ off / NOISE**2
    assert float(jnp.sqrt(jnp.mean(off**2))) < 0.1 * NOISE
    assert (np.abs(moved) < 0.3 * np.sqrt(np.diag(covariance))).all()
