r"""The model family: logarithms of a quantity = effects of covariates + a field in space + noise.

$$\log y(x) = c + \sum_j g_j(\log s_j) + b_{\text{category}} + w(x) + \text{noise}$$

Smooth $g_j$ of other quantities that were measured at the same places, a number for each category,
and a field $w$ that obeys an equation on a mesh. Everything but a few scales is integrated out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from riesz.errors import RieszError, any_of, nearest
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.effects import (
    AbstractEffect,
    Grouped,
    Joint,
    Level,
    Linear,
    Parameters,
    Smooth,
    Stationary,
)
from riesz_paper.regression.gaussian import (
    Conditioned,
    GaussianModel,
    conditioned,
    fitted,
    gaussian_model,
)
from riesz_paper.regression.method import Draws, Method, Values, noisy_draws
from riesz_paper.regression.physical_field import Modes, physical_field
from riesz_paper.regression.sites import Encoding, Sites, encoding_of

NUMBERS: dict[str, dict[str, Callable[[], AbstractEffect]]] = {
    "none": {},
    "linear": {"linear": Linear},
    "smooth": {"smooth": Smooth},
    "joint": {"joint": Joint},
    "linear and smooth": {"linear": Linear, "smooth": Smooth},
    "linear and joint": {"linear": Linear, "joint": Joint},
}
FIELDS = ("none", "stationary", "physical")
PHYSICAL = FIELDS[-1]
FIELD = "field"
HEAVY_TAILS = 4.0
"""Degrees of freedom of robust noise."""
FIELD_SHARE, LOCAL_SHARE = 0.2, 0.03
"""Where searches for the ranges of field and local effect start, as shares of the extent."""


@dataclass(frozen=True)
class Structure:
    """Which effects a model has."""

    numbers: str = "smooth"  # how other quantities act: a key of NUMBERS
    categories: bool = True  # whether categories act
    field: str = PHYSICAL  # one of FIELDS
    robust: bool = False  # whether noise has heavy tails
    local: bool = True  # whether neighbours share more than the field resolves

    def __post_init__(self):
        for name, found, known in (
            ("numbers", self.numbers, tuple(NUMBERS)),
            ("field", self.field, FIELDS),
        ):
            if found not in known:
                raise RieszError(
                    f"{name} is {found!r}: {nearest(found, known)}it is {any_of(known)}."
                )


@dataclass(frozen=True, eq=False)
class Regression:
    """A trained model."""

    structure: Structure
    modes: Modes | None
    encoding: Encoding
    target: Values
    conditioned: Conditioned
    centre: float  # of the logarithms of the target
    scale: float

    def __call__(self, at: Covariates) -> Draws:
        mean, sd = self.log_moments(at)
        return np.exp(noisy_draws(mean, sd, self.noise, freedom_of(self.structure)))

    @property
    def noise(self) -> float:
        """The scale of the noise of the quantity's logarithm."""
        return self.scale * float(jnp.exp(self.conditioned.model.log_noise))

    def log_moments(self, at: Covariates) -> tuple[Values, Values]:
        """Mean and sd of the logarithm of the quantity, noise apart."""
        return self.in_units(*self.conditioned.at(self.encoding(at)))

    def log_moments_given(
        self, at: Covariates, logs: Float[np.ndarray, "draw place number"]
    ) -> tuple[Draws, Draws]:
        """The same for many draws of the logarithms of all numbers at the places."""
        sites = self.encoding(self.without_numbers(at))
        scaled = jnp.asarray((logs - self.encoding.centre) / self.encoding.scale)
        mean, sd = self.in_units(*self.conditioned.at_draws(sites, scaled))
        return mean, sd

    def in_units(
        self, mean: Float[Array, "..."], variance: Float[Array, "..."]
    ) -> tuple[np.ndarray, np.ndarray]:
        # Rounding may leave a variance of zero a little below it.
        sd = np.sqrt(np.maximum(np.asarray(variance), 0.0))
        return self.centre + self.scale * np.asarray(mean), self.scale * sd

    def without_numbers(self, at: Covariates) -> Covariates:
        """Places with numbers that nobody reads."""
        unread = {name: np.ones(len(at)) for name in self.encoding.training.numbers}
        return Covariates(at.points, unread, at.categories)

    def field(self, points: Float[np.ndarray, "place 2"]) -> tuple[Values, Values]:
        """Mean and sd of the field in space, in logarithms of the quantity."""
        unread = {name: ("",) * len(points) for name in self.encoding.training.categories}
        sites = self.encoding(self.without_numbers(Covariates(points, {}, unread)))
        mean, sd = self.in_units(*self.conditioned.effect_at(FIELD, sites))
        return mean - self.centre, sd


def field_regression(structure: Structure, modes: Modes | None = None) -> Method:
    """A method of the family; a physical field needs the modes of a mesh around all places."""
    if structure.field == PHYSICAL and modes is None:
        raise RieszError("a physical field needs the modes of a mesh: give `modes_of(mesh)`.")
    used = modes if structure.field == PHYSICAL else None

    def train(training: Covariates, target: Values, *, seed: int) -> Regression:
        untrained = setup(structure, used, training, target)
        # The first search starts at the priors' centres, others at random.
        key = None if seed == 0 else jr.key(seed)
        return untrained.with_conditioned(
            fitted(
                untrained.model,
                untrained.sites,
                untrained.measured,
                key=key,
                freedom=freedom_of(structure),
            )
        )

    return train


def reconditioned(
    structure: Structure,
    modes: Modes | None,
    training: Covariates,
    target: Values,
    *,
    scales: dict[str, Parameters],
    log_noise: Float[Array, ""],
    precisions: Float[Array, " place"],
) -> Regression:
    """A model that was trained before, from its scales."""
    untrained = setup(structure, modes, training, target)
    model = GaussianModel(untrained.model.effects, scales, log_noise)
    found = conditioned(model, untrained.sites, untrained.measured, precisions)
    return untrained.with_conditioned(found)


@dataclass(frozen=True, eq=False)
class Untrained:
    """A model and its data, in units in which they have mean 0 and sd 1."""

    structure: Structure
    modes: Modes | None
    encoding: Encoding
    target: Values
    sites: Sites
    model: GaussianModel
    centre: float
    scale: float

    @property
    def measured(self) -> Float[Array, " place"]:
        return jnp.asarray((np.log(self.target) - self.centre) / self.scale)

    def with_conditioned(self, found: Conditioned) -> Regression:
        return Regression(
            self.structure,
            self.modes,
            self.encoding,
            self.target,
            found,
            self.centre,
            self.scale,
        )


def setup(
    structure: Structure, modes: Modes | None, training: Covariates, target: Values
) -> Untrained:
    check_target(training, target)
    encoding = encoding_of(training, None if modes is None else modes.at)
    sites = encoding(training)
    logs = np.log(target)
    model = gaussian_model(effects_of(structure, training, modes), sites)
    scale = float(logs.std())
    return Untrained(structure, modes, encoding, target, sites, model, float(logs.mean()), scale)


def freedom_of(structure: Structure) -> float | None:
    return HEAVY_TAILS if structure.robust else None


def effects_of(
    structure: Structure, training: Covariates, modes: Modes | None
) -> dict[str, AbstractEffect]:
    effects: dict[str, AbstractEffect] = {"level": Level()}
    if training.numbers:
        effects |= {name: kind() for name, kind in NUMBERS[structure.numbers].items()}
    if structure.categories and training.categories:
        effects["categories"] = Grouped()
    extent = float(np.ptp(training.points, axis=0).max())
    if modes is not None:
        effects[FIELD] = physical_field(modes, length=FIELD_SHARE * extent)
    elif structure.field == "stationary":
        effects[FIELD] = Stationary(jnp.asarray(FIELD_SHARE * extent))
    if structure.local:
        effects["local"] = Stationary(jnp.asarray(LOCAL_SHARE * extent))
    return effects
