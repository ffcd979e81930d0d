r"""The engine `emulate`: the limit $\epsilon \to 0$ of the relaxed objective; no PDE is solved.

A surrogate of the state is bound to the equation by the weak-form penalty around q, and q to the
data by the surrogate, each with the other held fixed: were the penalty to pull at q, it would
shrink q to where the surrogate is best. Where the penalty is a sum of squares and the surrogate
linear in its readout, both are solved for in rounds; otherwise they are trained by gradients.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.emulate.gradient_training import trained
from riesz.engines.emulate.least_squares import has_squares
from riesz.engines.emulate.rounds import Rounds, RoundSettings, emulated_in_rounds
from riesz.engines.emulate.settings import EmulateSettings
from riesz.engines.emulate.split import fitting_features, splits
from riesz.engines.emulate.start import (
    default_penalty,
    initial_surrogate,
    reference_penalty,
)
from riesz.engines.emulate.states import SurrogateStates
from riesz.engines.emulate.variational import matched_normals, refined
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import AbstractPenalty, WeakFormPenalty
from riesz.penalty.precision import full_precision
from riesz.posterior.family import AbstractFamily, full_rank
from riesz.posterior.posterior import Posterior
from riesz.problem.linearity import affine_coordinates
from riesz.problem.problem import InverseProblem, in_precision
from riesz.surrogate.surrogate import Surrogate


def emulate(
    problem: InverseProblem,
    *,
    seed: int = 0,
    settings: EmulateSettings | None = None,
    gram: Gram | None = None,
    penalty: AbstractPenalty | None = None,
    surrogate: Surrogate | None = None,
    family: AbstractFamily | None = None,
    quiet: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """Infer the unknowns with an emulated state.

    Needs a problem on a hierarchy of meshes, or a penalty of one's own; `gram` is the inner
    product behind the norm, for rough coefficients; `surrogate` and `family` are where it starts.
    """
    settings = EmulateSettings() if settings is None else settings
    network_key, key, refine_key = jr.split(jr.key(seed), 3)
    if penalty is None:
        penalty = default_penalty(problem, settings, gram, engine="emulate")
    if surrogate is None:
        surrogate = initial_surrogate(
            problem, network_key, width=settings.width, features=num_features(problem, settings)
        )
    family = full_rank(problem.num_coordinates, problem.forward.dtype) if family is None else family
    with full_precision():
        reference = reference_penalty(problem, penalty, surrogate)
        if isinstance(penalty, WeakFormPenalty) and has_squares(penalty, surrogate):
            found = rounds_in_double(
                *(problem, penalty, surrogate, family, settings, reference, key),
                quiet=quiet,
                checkpoint=checkpoint,
            )
        else:
            surrogate, family, history = trained(
                *(problem, penalty, surrogate, family, settings, reference, key),
                quiet=quiet,
                checkpoint=checkpoint,
            )
            size = problem.num_coordinates
            normals = matched_normals(refine_key, settings.refining_draws, size, family.dtype)
            family = refined(problem, surrogate, family, normals)
            found = Rounds(surrogate, family, history, ())
    history = {name: jnp.asarray(curve) for name, curve in found.history.items()}
    states = SurrogateStates(found.surrogate)
    return Posterior(problem, found.family, states, history, "emulate", seed, found.notes)


def num_features(problem: InverseProblem, settings: EmulateSettings) -> int:
    """Functions of place: fewer where many unknowns would make the system too large."""
    linear = affine_coordinates(problem)
    others = np.setdiff1d(np.arange(problem.num_coordinates), linear)
    return fitting_features(splits(linear, others, settings.num_bends), settings.features)


def rounds_in_double(
    problem: InverseProblem,
    penalty: WeakFormPenalty,
    surrogate: Surrogate,
    family: AbstractFamily,
    settings: EmulateSettings,
    reference: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    quiet: bool,
    checkpoint: AbstractCheckpoint,
) -> Rounds:
    """Rounds in double precision, whatever that of the problem.

    Normal equations square the condition number; in single precision nothing would be left.
    """
    dtype = problem.forward.dtype
    own = RoundSettings(
        num_bends=settings.num_bends,
        num_batches=settings.readout_batches,
        num_samples=settings.num_samples,
        refining_draws=settings.refining_draws,
        max_rounds=settings.rounds,
    )
    with jax.enable_x64(True):
        double = emulated_in_rounds(
            in_precision(problem, jnp.float64),
            in_precision(penalty, jnp.float64),
            in_precision(without_state(surrogate), jnp.float64),
            in_precision(family, jnp.float64),
            own,
            reference.astype(jnp.float64),
            key,
            quiet=quiet,
            checkpoint=checkpoint,
        )
    return dataclasses.replace(
        double,
        surrogate=in_precision(double.surrogate, dtype),
        family=in_precision(double.family, dtype),
    )


def without_state(surrogate: Surrogate) -> Surrogate:
    """Its functions with no readout yet: the lifting alone, where Newton's method may start."""
    return eqx.tree_at(lambda s: s.network.readout, surrogate, replace_fn=jnp.zeros_like)
