"""A surrogate that is right over the whole prior: what data sets can be made up with."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PRNGKeyArray

from riesz.engines.emulate.gradient_training import (
    EmulateData,
    EmulateState,
    EmulateStep,
    family_optimiser,
    network_optimiser,
    run,
)
from riesz.engines.emulate.least_squares import applies_to, stepped_readout
from riesz.engines.emulate.settings import EmulateSettings
from riesz.engines.emulate.start import reference_penalty
from riesz.engines.training import History
from riesz.errors import RieszError
from riesz.penalty.penalty import AbstractPenalty, WeakFormPenalty
from riesz.posterior.family import antithetic, full_rank
from riesz.problem.problem import InverseProblem, in_precision
from riesz.surrogate.surrogate import Surrogate

OVER_PRIOR = EmulateSettings(width=112, features=52, prior_steps=0, readout_batches=120)
"""A surrogate for the whole prior, not for the surroundings of one posterior, as large as its
readout can be solved for. (Where the readout is solved for, training the functions before it gains
nothing that more random ones do not give at less cost.)"""


def over_the_prior(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: Surrogate,
    settings: EmulateSettings,
    key: PRNGKeyArray,
    *,
    num_solves: int = 1,
    quiet: bool,
) -> tuple[Surrogate, History]:
    """The surrogate fitted to the equation for unknowns from the prior."""
    train_key, readout_key = jr.split(key)
    history: History = {}
    solvable = applies_to(penalty, surrogate)
    if not (settings.prior_steps or (solvable and num_solves)):
        raise RieszError(
            "the readout of this surrogate cannot be solved for with this penalty, and no training "
            "is asked for: use the default penalty and a smaller surrogate, or set "
            "AmortiseSettings(surrogate=EmulateSettings(prior_steps=...)) to some thousands."
        )
    if settings.prior_steps:
        surrogate, history = trained_surrogate(
            problem, penalty, surrogate, settings, train_key, quiet=quiet
        )
    if not (solvable and isinstance(penalty, WeakFormPenalty)):
        return surrogate, history
    # As in `emulate`: normal equations square the condition number, and need double precision.
    with jax.enable_x64(True):
        solved = with_solved_readout(
            in_precision(problem, jnp.float64),
            in_precision(penalty, jnp.float64),
            in_precision(surrogate, jnp.float64),
            settings,
            readout_key,
            num_solves,
        )
    return in_precision(solved, problem.forward.dtype), history


def trained_surrogate(
    problem: InverseProblem,
    penalty: AbstractPenalty,
    surrogate: Surrogate,
    settings: EmulateSettings,
    key: PRNGKeyArray,
    *,
    quiet: bool,
) -> tuple[Surrogate, History]:
    """By gradient descent on the penalty."""
    family = full_rank(problem.num_coordinates, problem.forward.dtype)  # stays as it is
    state = EmulateState(
        surrogate.network,
        network_optimiser(settings).init(eqx.filter(surrogate.network, eqx.is_inexact_array)),
        family,
        family_optimiser(settings).init(eqx.filter(family, eqx.is_inexact_array)),
    )
    reference = reference_penalty(problem, penalty, surrogate)
    data = EmulateData(problem, penalty, surrogate, reference)
    state, history = run(EmulateStep(settings, True), state, key, data, quiet=quiet)
    return dataclasses.replace(surrogate, network=state.network), history


def with_solved_readout(
    problem: InverseProblem,
    penalty: WeakFormPenalty,
    surrogate: Surrogate,
    settings: EmulateSettings,
    key: PRNGKeyArray,
    num_solves: int,
) -> Surrogate:
    """Gauss-Newton steps of the readout; the penalty is a sum of squares."""
    size, dtype = problem.num_coordinates, problem.forward.dtype
    shape = (settings.readout_batches, settings.num_samples, size)
    for one in jr.split(key, num_solves):
        draw_key, patch_key = jr.split(one)
        draws = antithetic(draw_key, shape[0] * shape[1], size, dtype)
        surrogate = stepped_readout(problem, penalty, surrogate, patch_key, draws.reshape(shape))
    return surrogate
