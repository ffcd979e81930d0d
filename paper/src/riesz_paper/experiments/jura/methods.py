"""The methods of the experiment `jura`, all behind one interface."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from riesz.datasets.jura import JuraSamples
from riesz_paper.baselines.gaussian_process import additive_log_gp, gp_on_coordinates
from riesz_paper.baselines.kriging.co_kriging import co_kriging
from riesz_paper.baselines.kriging.diffusion_kernel import diffusion_kernel
from riesz_paper.baselines.kriging.ordinary import kriging
from riesz_paper.baselines.random_forest import random_forest
from riesz_paper.baselines.vae.model import MODERN, PAPER, vae
from riesz_paper.baselines.vae.physics import vae_dt, vae_nld
from riesz_paper.experiments.jura.cases import Case, modes_around
from riesz_paper.experiments.jura.settings import Choice
from riesz_paper.regression.method import Method
from riesz_paper.regression.model import field_regression

Build = Callable[[JuraSamples, Choice], Method]

OURS, ADDITIVE, GPDK, PLAIN = "field-regression", "additive-log-gp", "gpdk", "vae"
"""Ours, and those that others are held against."""


@dataclass(frozen=True)
class Entry:
    """A method, what it is in the table, and how it is made for a case."""

    name: str
    role: str
    build: Build
    restarts: int = 10  # in a full run
    categories: bool = True  # whether it can use them, and so is run on cases that have them


def ours(samples: JuraSamples, choice: Choice) -> Method:
    return field_regression(choice.structure, modes_around(samples))


def without(**changes: Any) -> Build:
    """Ours, with other effects and all else the same."""

    def build(samples: JuraSamples, choice: Choice) -> Method:
        return field_regression(replace(choice.structure, **changes), modes_around(samples))

    return build


def with_transport(samples: JuraSamples, choice: Choice) -> Method:
    return field_regression(choice.structure, modes_around(samples, transport=True))


def always(method: Method) -> Build:
    def build(samples: JuraSamples, choice: Choice) -> Method:
        del samples, choice
        return method

    return build


BY_NAME = {
    entry.name: entry
    for entry in (
        Entry(OURS, "ours", ours),
        Entry("field-regression-no-field", "ours", without(field="none", local=False), restarts=1),
        Entry("field-regression-no-physics", "ours", without(field="stationary"), restarts=1),
        Entry("field-regression-no-local", "ours", without(local=False), restarts=1),
        Entry("field-regression-transport", "ours", with_transport, restarts=1),
        Entry(ADDITIVE, "baseline", always(additive_log_gp())),
        Entry(PLAIN, "paper-method", always(vae(MODERN))),
        Entry("vae-dt", "paper-method", always(vae_dt(MODERN))),
        Entry("vae-nld", "paper-method", always(vae_nld(MODERN))),
        Entry("vae-paper", "paper-method", always(vae(PAPER)), restarts=5, categories=False),
        Entry("vae-dt-paper", "paper-method", always(vae_dt(PAPER)), restarts=5, categories=False),
        Entry(
            "vae-nld-paper", "paper-method", always(vae_nld(PAPER)), restarts=5, categories=False
        ),
        Entry(GPDK, "paper-method", always(diffusion_kernel()), restarts=5, categories=False),
        Entry("gp-coordinates", "baseline", always(gp_on_coordinates()), categories=False),
        Entry("kriging", "baseline", always(kriging()), categories=False),
        Entry("co-kriging", "baseline", always(co_kriging()), restarts=3, categories=False),
        Entry("random-forest", "baseline", always(random_forest())),
    )
}


def entries_for(case: Case) -> tuple[Entry, ...]:
    return tuple(entry for entry in BY_NAME.values() if entry.categories or not case.categories)
