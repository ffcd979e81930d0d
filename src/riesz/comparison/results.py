"""What a comparison found: scores of each model, paired differences, and a verdict."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from riesz.comparison.blocks import BLOCKS, ONE, Block
from riesz.diagnose.held_out import HeldOut
from riesz.notes import Note

KRIGING, PLANE = "kriging", "plane"

NUM_RESAMPLES = 4000
INTERVAL = (0.025, 0.975)

PerSensor = Float[np.ndarray, " sensor"]


@dataclass(frozen=True)
class Difference:
    """A mean over observations of one model's score less another's, better where positive.

    `error` is its standard error, `low` and `high` its 95 % interval: over blocks where
    observations were left out by blocks, whose errors go together, else over observations.
    """

    mean: float
    error: float
    low: float
    high: float

    @property
    def is_better(self) -> bool:
        return self.low > 0

    @property
    def is_worse(self) -> bool:
        return self.high < 0

    def __str__(self) -> str:
        return (
            f"{self.mean:+.3f} +- {self.error:.2g}, 95 % interval {self.low:.2g} to {self.high:.2g}"
        )


def pair_difference(differences: PerSensor, block: Block, seed: int) -> Difference:
    """The mean, and by how much it would vary had other blocks been measured (bootstrap)."""
    known = np.isfinite(differences)
    if not known.any():  # limits of detection alone have no errors
        return Difference(*[float("nan")] * 4)
    differences, block = differences[known], block[known]
    numbers, which = np.unique(block, return_inverse=True)
    sums, sizes = np.bincount(which, differences), np.bincount(which)
    mean, count = float(differences.mean()), len(numbers)
    # Of a ratio of sums over blocks, by its linearisation.
    error = float(np.sqrt(np.sum((sums - mean * sizes) ** 2) * count / max(count - 1, 1)))
    chosen = np.random.default_rng(seed).integers(count, size=(NUM_RESAMPLES, count))
    means = sums[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    low, high = np.quantile(means, INTERVAL)
    return Difference(mean, error / len(differences), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Model:
    """One of the models: a posterior, or what knows no equation (its engine is then empty)."""

    name: str
    engine: str
    held_out: Mapping[str, HeldOut]  # by the way of leaving out
    log_evidence: float | None = None
    knows: int = 0  # models with the same number know the same covariates

    @property
    def is_physics(self) -> bool:
        return bool(self.engine)

    def in_unit(self, back: Callable[[Any], Any]) -> "Model":
        result = {how: one.in_unit(back) for how, one in self.held_out.items()}
        return replace(self, held_out=result)

    def row(self) -> dict[str, Any]:
        """Its figures by name; None where there is none."""
        alone, blocks = self.held_out[ONE], self.held_out.get(BLOCKS)
        row: dict[str, Any] = {"model": self.name, "engine": self.engine or None}
        row |= {"elpd_loo": alone.total}
        row |= {f"{name}_loo": value for name, value in alone.means().items()}
        row |= {"k_hat_loo": finite(alone.k_hat.max())}
        row |= {"doubtful_loo": int(alone.unreliable.sum())}
        if blocks is not None:
            row |= {f"{name}_blocks": value for name, value in blocks.means().items()}
            row |= {"k_hat_blocks": finite(blocks.k_hat.max()), "how_blocks": list(blocks.how)}
        return row | {"log_evidence": self.log_evidence}


def finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models of the same observations, ours first; `print` shows tables and the verdict.

    `block` says which observations were left out together, None where there were too few places;
    `lacking` why kriging and a plane are not among the models, where they are not.
    """

    models: tuple[Model, ...]
    block: Block | None
    seed: int
    lacking: str | None = None
    unit: str = ""

    @property
    def how(self) -> str:
        """The harder way of leaving out that there is, by which the verdict is given."""
        return ONE if self.block is None else BLOCKS

    @cached_property
    def ranked(self) -> tuple[Model, ...]:
        """Best first, by the log-density of what was left out."""
        return tuple(sorted(self.models, key=lambda one: -self.mean_log_density(one)))

    def mean_log_density(self, model: Model) -> float:
        return float(model.held_out[self.how].log_densities.mean())

    def model(self, name: str) -> Model:
        return next(one for one in self.models if one.name == name)

    def difference(
        self, name: str, other: str, *, score: str = "log_density", how: str | None = None
    ) -> Difference:
        """By how much a model is better than another; score is log_density, crps or error."""
        how = self.how if how is None else how
        ours, theirs = (self.model(one).held_out[how].scores[score] for one in (name, other))
        apart = ours - theirs
        apart = apart if score == "log_density" else -apart
        block = self.block
        if how == ONE or block is None:
            block = np.arange(len(apart))
        return pair_difference(apart, block, self.seed)

    def pairs(self) -> Iterator[dict[str, Any]]:
        """Every two models, in each way and by each score."""
        for number, one in enumerate(self.models):
            for other in self.models[number + 1 :]:
                for how in self.models[0].held_out:
                    for score in ("log_density", "crps", "error"):
                        result = self.difference(one.name, other.name, score=score, how=how)
                        if np.isnan(result.mean):
                            continue
                        row = {"model": one.name, "other": other.name, "left_out": how}
                        numbers = {"better_by": result.mean, "error": result.error}
                        numbers |= {"low": result.low, "high": result.high}
                        yield row | {"score": score} | numbers

    @cached_property
    def verdict(self) -> tuple[Note, ...]:
        """Does the equation help, which model is the best, what cannot be told."""
        ours = [one for one in self.ranked if one.is_physics]
        rivals = {one.knows: one for one in reversed(self.ranked) if not one.is_physics}
        pairs = [(one.name, rivals[one.knows]) for one in ours if one.knows in rivals]
        notes = [self.against(name, rival) for name, rival in pairs]
        if len(ours) > 1:
            named = zip(pairs, notes, strict=True)
            notes = [Note("of_model", model=name, verdict=note) for (name, _), note in named]
        notes += [self.between(ours[0], other) for other in ours[1:]]
        notes += [Note("no_rivals", reason=self.lacking)] if self.lacking else []
        for one in self.models:
            lost, is_block = one.held_out[self.how].unreliable.sum(), self.how == BLOCKS
            note = Note("not_left_out", model=one.name, count=lost, is_block=is_block)
            notes += [note] if lost else []
        return tuple(notes)

    def against(self, ours: str, rival: Model) -> Note:
        """Whether the equation helps, beside the better of kriging and the plane."""
        result = self.difference(ours, rival.name)
        theirs = f"a {rival.name}" if rival.name.startswith(PLANE) else rival.name
        code = "physics_helps" if result.is_better else "physics_no_help"
        code = "physics_costs" if result.is_worse else code
        return Note(code, rival=theirs, left_out=self.leave_out, **asdict(result))

    def between(self, best: Model, other: Model) -> Note:
        result = self.difference(best.name, other.name)
        code = "model_better" if result.is_better else "models_alike"
        names = {"model": best.name, "other": other.name, "left_out": self.leave_out}
        return Note(code, **names, **asdict(result))

    @property
    def leave_out(self) -> str:
        return "observations" if self.block is None else "blocks"

    def rows(self) -> list[dict[str, Any]]:
        return [one.row() for one in self.models]

    def __str__(self) -> str:
        return "\n".join([*self.tables(), *map(str, self.verdict)])

    def tables(self) -> Iterator[str]:
        count = len(self.models[0].held_out[ONE].observed)
        first = self.ranked[0].name
        for how in self.models[0].held_out:
            number = "" if how == ONE else f" ({len(self.models[0].held_out[how].how)})"
            yield f"{count} observations left out {how}{number}"
            lines = [["model", "log-density", f"less {first}", "CRPS", "MAE", "in 95 %"]]
            lines[0] += ["k-hat > 0.7", "log-evidence"] if how == ONE else ["k-hat", "how"]
            lines += [self.line(one, how, first) for one in self.ranked]
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            for line in lines:
                cells = [line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]
                yield "  ".join(cells).rstrip()
        unit = self.unit or "the unit of the data"
        yield f"log-density and difference: means of an observation; CRPS and MAE in {unit}"

    def line(self, one: Model, how: str, first: str) -> list[str]:
        kept = one.held_out[how]
        means = kept.means()
        apart = self.difference(one.name, first, how=how)
        gap = "" if one.name == first else f"{apart.mean:+.3f} +- {apart.error:.2g}"
        spelt = [f"{v:.4g}" if (v := means[key]) is not None else "-" for key in ("crps", "mae")]
        held = means["coverage95"]
        evidence = "not given" if one.log_evidence is None else f"{one.log_evidence:.2f}"
        ways = sorted(set(kept.how))
        last = evidence if how == ONE else ", ".join(f"{kept.how.count(w)} {w}" for w in ways)
        return [
            one.name,
            f"{means['log_density']:.3f}",
            gap,
            *spelt,
            "-" if held is None else f"{held:.0%}",
            f"{int(kept.unreliable.sum())}" if how == ONE else f"{kept.k_hat.max():.2f}",
            last,
        ]
