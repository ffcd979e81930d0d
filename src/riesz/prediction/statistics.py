"""Statistics of draws: all at once, or as they arrive in chunks."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError

Chunk = Float[np.ndarray, "draw *shape"]
Statistic = Float[np.ndarray, "*shape"]

KEPT_NUMBERS = 200_000_000
"""Quantiles need every draw; no more numbers than this (1.6 GB) are kept for them."""

NUMBERS_AT_ONCE = 10_000_000
"""Quantiles are taken over this many numbers at a time, since sorting copies them."""

NUM_DRAWS = 400
"""For predictions, each of which may cost a solve."""

LEVELS = (0.05, 0.5, 0.95)


class Prediction(eqx.Module):
    """A quantity under the posterior: mean, sd, quantiles by level, and P(quantity > value).

    `draws` are all that these were taken of, where they were to be kept: the first axis counts.
    """

    mean: Statistic
    sd: Statistic
    quantiles: dict[float, Statistic]
    exceedance: dict[float, Statistic]
    num_draws: int = eqx.field(static=True)
    draws: Chunk | None = None

    def reshape(self, change: Callable[[Statistic], Statistic]) -> "Prediction":
        """The same in another shape, such as that of a grid."""
        draws = None if self.draws is None else np.stack([*map(change, self.draws)])
        statistics = jax.tree.map(change, dataclasses.replace(self, draws=None))
        return dataclasses.replace(statistics, draws=draws)


class Running(eqx.Module):
    """Count, mean and sum of squared deviations of the draws seen so far."""

    count: int
    mean: Statistic
    squares: Statistic


def running(draws: Chunk) -> Running:
    mean = draws.mean(axis=0)
    squares = np.sum((draws - mean) ** 2, axis=0)
    return Running(len(draws), np.asarray(mean), np.asarray(squares))


def merge(a: Running, b: Running) -> Running:
    """Of both together, without the cancellation of sums of squares (Chan et al. 1979)."""
    count, step = a.count + b.count, b.mean - a.mean
    between = step**2 * a.count * b.count / count
    return Running(
        count,
        np.asarray(a.mean + step * b.count / count),
        np.asarray(a.squares + b.squares + between),
    )


def collect(
    chunks: Iterable[Chunk],
    num_draws: int,
    quantiles: Sequence[float],
    exceed: Sequence[float],
    *,
    keep_draws: bool = False,
) -> Prediction:
    """Statistics of draws that arrive in chunks."""
    total, kept, above = None, [], dict.fromkeys(map(float, exceed), 0)
    keep = keep_draws or bool(quantiles)
    for chunk in limit_size(chunks, num_draws, keep=keep):
        check_finite_chunk(chunk)
        total = running(chunk) if total is None else merge(total, running(chunk))
        above = {value: count + (chunk > value).sum(axis=0) for value, count in above.items()}
        kept += [chunk] if keep else []
    if total is None:
        raise RieszError("statistics need at least one draw.")
    draws = np.concatenate(kept) if kept else None
    return Prediction(
        mean=total.mean,
        sd=np.asarray(np.sqrt(total.squares / max(total.count - 1, 1))),
        quantiles=quantiles_of(draws, quantiles) if draws is not None and quantiles else {},
        exceedance={value: np.asarray(count / total.count) for value, count in above.items()},
        num_draws=total.count,
        draws=draws if keep_draws else None,
    )


def over_places(
    draws_at: Callable[[slice], Chunk],
    num_places: int,
    num_draws: int,
    quantiles: Sequence[float],
    exceed: Sequence[float],
    *,
    keep_draws: bool = False,
) -> Prediction:
    """Statistics of draws at places, of all draws at once but only some of the places."""
    size, asked = max(NUMBERS_AT_ONCE // num_draws, 1), (num_draws, quantiles, exceed)
    parts = [
        collect([draws_at(slice(start, start + size))], *asked, keep_draws=keep_draws)
        for start in range(0, num_places, size)
    ]
    draws = [part.draws for part in parts if part.draws is not None]
    parts = [dataclasses.replace(part, draws=None) for part in parts]
    result = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return dataclasses.replace(result, draws=np.concatenate(draws, axis=1)) if draws else result


def check_thresholds(exceed: Sequence[float]) -> None:
    if not all(map(np.isfinite, exceed)):
        raise RieszError(f"values to exceed are {tuple(exceed)}: they must be finite.")


def check_finite_chunk(chunk: Chunk) -> None:
    bad = ~np.isfinite(chunk.reshape(len(chunk), -1)).all(axis=1)
    if bad.any():
        raise RieszError(
            f"the quantity is NaN or infinite in {bad.sum()} of {len(chunk)} draws: look at the "
            "function that computes it, or at priors that allow impossible coefficients."
        )


def limit_size(chunks: Iterable[Chunk], num_draws: int, *, keep: bool) -> Iterator[Chunk]:
    for chunk in chunks:
        size = num_draws * chunk[0].size
        if keep and size > KEPT_NUMBERS:
            raise RieszError(
                f"{num_draws} draws at {chunk[0].size} places would keep {size} numbers: take "
                "fewer draws or places, or only the mean and sd, quantiles=()."
            )
        yield chunk


def quantiles_of(draws: Chunk, levels: Sequence[float]) -> dict[float, Statistic]:
    """Quantiles over the draws, a block of places at a time."""
    flat = draws.reshape(len(draws), -1)
    blocks = np.array_split(flat, 1 + flat.size // NUMBERS_AT_ONCE, axis=1)
    result = np.concatenate([np.quantile(block, levels, axis=0) for block in blocks], axis=1)
    return {
        float(level): values.reshape(draws.shape[1:])
        for level, values in zip(levels, result, strict=True)
    }
