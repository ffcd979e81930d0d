"""What chains tell of themselves: transitions, agreement, and what to warn of."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.notes import Note
from riesz.posterior.chains import FEWEST, agreement
from riesz.posterior.checks import EFFECTIVE_DRAWS, R_HAT, STRAY
from riesz.problem.problem import Coordinates

APART = 1.3
"""From here on chains lie in different places, and more draws alone will not help."""

RARE = 20
"""Jumps between modes that must have been taken for their weights to be known."""


class Transition(eqx.Module):
    """What is kept of one step of the sampler."""

    coordinates: Coordinates
    log_density: Float[Array, ""]
    num_steps: Int[Array, ""]  # leapfrog steps, a gradient each
    accept_probability: Float[Array, ""]
    diverging: Array
    step_size: Float[Array, ""]


def history_of(transition: Transition) -> dict[str, Array]:
    """Statistics of the kept draws, by chain, and how well the chains agree."""
    draws = np.asarray(transition.coordinates)
    result = agreement(draws) if draws.shape[1] >= FEWEST else None
    measures = {}
    if result is not None:
        measures = {name: jnp.asarray(values) for name, values in result._asdict().items()}
    return measures | {
        "log_density": transition.log_density,
        "num_steps": transition.num_steps,
        "accept_probability": transition.accept_probability,
        "diverging": transition.diverging,
        "step_size": transition.step_size,
    }


def sampler_warnings(history: dict[str, Array], names: tuple[str, ...]) -> tuple[Note, ...]:
    """What a reader must know before trusting the draws."""
    notes = []
    divergences = int(jnp.sum(history["diverging"]))
    if divergences > STRAY * history["diverging"].size:
        notes.append(Note("divergences", count=divergences, total=history["diverging"].size))
    r_hat = np.asarray(history.get("r_hat", np.full(len(names), math.nan)))
    worst = int(np.argmax(np.where(np.isfinite(r_hat), r_hat, math.inf)))
    if not np.isfinite(r_hat[worst]):
        notes.append(Note("too_few_draws"))
        return tuple(notes)
    if r_hat[worst] > R_HAT.good:
        # A few draws may lie anywhere; many that stay in different places have a reason to.
        chains, draws = history["diverging"].shape
        are_apart = r_hat[worst] >= APART and chains > 1 and draws >= EFFECTIVE_DRAWS.bad
        code = "chains_apart" if are_apart else "r_hat"
        notes.append(Note(code, value=r_hat[worst], unknown=names[worst], limit=R_HAT.good))
    effective = np.nan_to_num(np.asarray(history["effective_draws"]), nan=1.0)
    fewest = int(np.argmin(effective))
    if effective[fewest] < EFFECTIVE_DRAWS.bad:
        result = {"value": effective[fewest], "error": 1 / math.sqrt(effective[fewest])}
        unknown = names[fewest]
        notes.append(Note("effective_draws", **result, unknown=unknown, limit=EFFECTIVE_DRAWS.bad))
        return tuple(notes)
    tails = np.nan_to_num(np.asarray(history.get("tail_draws", effective)), nan=1.0)
    fewest = int(np.argmin(tails))
    if tails[fewest] < EFFECTIVE_DRAWS.bad:
        result = {"value": tails[fewest], "unknown": names[fewest]}
        notes.append(Note("tail_draws", **result, limit=EFFECTIVE_DRAWS.bad))
    return tuple(notes)


def agreement_along(
    draws: Float[np.ndarray, "chain draw coordinate"],
    directions: Float[np.ndarray, "coordinate direction"],
) -> tuple[dict[str, Array], tuple[Note, ...]]:
    """Agreement along the directions in which data tell something, and what to warn of.

    Each has a small part in each of many coordinates, where it would not be seen.
    """
    measured = agreement(draws @ directions)._asdict()
    result = {name: jnp.asarray(rows) for name, rows in measured.items()}
    names = tuple(f"direction {i + 1} that data tell of" for i in range(directions.shape[1]))
    notes = sampler_warnings(result | {"diverging": jnp.zeros(draws.shape[:2], bool)}, names)
    return {f"{name}_along": rows for name, rows in result.items()}, notes


def note_on_modes(owner: Int[np.ndarray, "chain draw"], count: int) -> tuple[Note, ...]:
    """That there is more than one, and whether their weights can be relied on."""
    if count == 1:
        return ()
    shares = [np.mean(owner == number) for number in range(count)]
    changes = np.sum(owner[:, 1:] != owner[:, :-1])
    return (Note("modes", count=count, shares=shares, changes=changes, is_rare=changes < RARE),)
