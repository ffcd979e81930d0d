"""The model of a blind problem: an equation, boundary conditions and priors, on any mesh.

Everything is drawn in units of a length, a diffusivity and a size of the state, which are drawn
too: an engine must not rely on numbers near one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import riesz as rz
from riesz_paper.experiments.blind.ground import INFLOW, OUTFLOW, RIVER, Ground, scattered

FAMILIES = ("number", "zones", "field", "sources", "boundary", "nonlinear")
"""By what is unknown, or by an equation that is not linear in the state."""

FIELD_UNKNOWNS = (4, 40)
UPWIND_FROM = 1.0
"""The cell Peclet number from which a user asks for streamline upwinding."""

LARGEST_PECLET = 20.0


@dataclass(frozen=True)
class Units:
    """The scales of a problem."""

    length: float
    diffusivity: float
    state: float


@dataclass(frozen=True)
class Model:
    """What is given to the engine, but for mesh and data."""

    family: str
    equation: rz.fem.WeakForm
    latents: Mapping[str, Any]
    dirichlet: Mapping[str, Any]
    terms: tuple[str, ...]
    units: Units
    velocity: float = 0.0  # its size
    wells: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))


def draw_units(rng: np.random.Generator) -> Units:
    length, diffusivity, state = (
        float(rng.choice(values))
        for values in ((1.0, 100.0, 10_000.0), (1e-2, 1.0, 500.0), (0.1, 1.0, 30.0))
    )
    return Units(length, diffusivity, state)


def between(rng: np.random.Generator, low: float | int, high: float | int) -> float:
    """Evenly in logarithms."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def positive(median: float, sd: float) -> dist.Distribution:
    return dist.LogNormal(float(np.log(median)), sd)


def cubic(u, v, *, rate):
    r"""$k\,u^3 v$, a loss that grows with the state."""
    return rate * u.value * u.value * u.value * v.value


class Drawn:
    """Terms as they are drawn one by one, and the unknowns that stand in them."""

    def __init__(self, family: str, units: Units, ground: Ground, rng: np.random.Generator):
        self.family, self.units, self.ground, self.rng = family, units, ground, rng
        self.latents: dict[str, Any] = {}
        self.terms: list[str] = ["diffusion"]
        self.equation = rz.fem.WeakForm()
        self.wells = np.zeros((0, 2))
        self.left = {"number": int(rng.integers(1, 4)), "nonlinear": int(rng.integers(1, 3))}.get(
            family, int(rng.random() < 0.4)
        )
        peclet = between(rng, 0.1, LARGEST_PECLET) if rng.random() < 0.35 else 0.0
        self.peclet = peclet
        self.velocity = 2 * units.diffusivity * peclet / ground.edge
        # Where the flow is fast a source must be strong to be seen at all.
        self.strength = 1 + self.velocity * units.length / units.diffusivity / 5

    def wanted(self, share: float = 0.7) -> bool:
        """Whether another number is to be unknown."""
        if self.left == 0 or self.rng.random() > share:
            return False
        self.left -= 1
        return True

    def number(self, name: str, prior: dist.Distribution, value: Any, share: float = 0.7) -> Any:
        """The name of a new unknown, or a value that is known."""
        if not self.wanted(share):
            return value
        self.latents[name] = prior
        return name

    def add(self, name: str, term: rz.fem.WeakForm) -> None:
        self.terms.append(name)
        self.equation = self.equation + term


def draw_model(ground: Ground, units: Units, family: str, rng: np.random.Generator) -> Model:
    """An equation with unknowns of this family."""
    drawn = Drawn(family, units, ground, rng)
    drawn.equation = rz.diffusion(diffusivity(drawn))
    if drawn.peclet > 0:
        drawn.add("advection", flow(drawn))
    if family == "nonlinear":
        rate = units.diffusivity / units.length**2 / units.state**2 * between(rng, 1, 10)
        drawn.add(
            "cubic loss",
            rz.integral(cubic, rate=drawn.number("k", positive(rate, 0.6), rate, 0.5)),
        )
    elif rng.random() < 0.3:
        rate = units.diffusivity / units.length**2 * between(rng, 1, 30)
        drawn.add("reaction", rz.reaction(drawn.number("k", positive(rate, 0.6), rate)))
    sources(drawn)
    dirichlet = boundary(drawn)
    if not drawn.latents and family != "boundary":
        drawn.latents["f2"] = dist.Normal(0.0, size_of_source(drawn))
        drawn.add("source", -rz.source("f2"))
    return Model(
        family,
        drawn.equation,
        drawn.latents,
        dirichlet,
        tuple(drawn.terms),
        units,
        drawn.velocity,
        drawn.wells,
    )


def diffusivity(drawn: Drawn) -> Any:
    """A number, zones or a field, perhaps times a tensor."""
    rng, median = drawn.rng, drawn.units.diffusivity
    sd = float(rng.uniform(0.4, 1.0))
    kind = drawn.family
    if kind == "nonlinear":
        kind = str(rng.choice(["number", "zones", "field"]))
    value: Any = median
    if kind == "zones":
        drawn.latents["a"] = rz.Regions(positive(median, sd))
        value = "a"
    elif kind == "field":
        largest = FIELD_UNKNOWNS[1] if drawn.family == "field" else 12
        drawn.latents["a"] = random_field(drawn, sd, np.log(median), jnp.exp, largest)
        value = "a"
    else:
        value = drawn.number("a", positive(median, sd), median, share=0.8)
    if rng.random() < 0.25:
        drawn.terms.append("anisotropy")
        turn, ratio = rng.uniform(0, np.pi), between(rng, 2, 10)
        axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        value = rz.fem.scale(value, axes @ np.diag([1.0, 1 / ratio]) @ axes.T)
    return value


def random_field(drawn: Drawn, sd: float, mean: float, transform: Any, largest: int) -> Any:
    """By its principal functions or by inducing points."""
    rng = drawn.rng
    kernel = (rz.Matern32, rz.priors.Matern52, rz.priors.RBF)[int(rng.integers(3))]
    covariance = kernel(float(drawn.units.length * rng.uniform(0.2, 0.6)), sd)
    count = round(between(rng, FIELD_UNKNOWNS[0], largest))
    if rng.random() < 0.5:
        return rz.KarhunenLoeve(covariance, count, mean=float(mean), transform=transform)
    return rz.GP(covariance, count, mean=float(mean), transform=transform, at_nodes=True)


def flow(drawn: Drawn) -> rz.fem.WeakForm:
    """Roughly from inflow to outflow."""
    turn = drawn.rng.uniform(-1, 1)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    velocity = drawn.velocity * rotation @ drawn.ground.way
    prior = dist.Normal(jnp.asarray(velocity), 0.3 * drawn.velocity)
    given = drawn.number("v", prior, velocity, 0.4)
    return rz.advection(given, supg=drawn.peclet > UPWIND_FROM)


def size_of_source(drawn: Drawn) -> float:
    units = drawn.units
    return drawn.strength * 4 * units.state * units.diffusivity / units.length**2


def sources(drawn: Drawn) -> None:
    """Recharge everywhere, wells and a river; one of them at least."""
    rng, units, size = drawn.rng, drawn.units, size_of_source(drawn)
    inside = scattered(drawn.ground.mesh, 3, rng, clustered=False)
    has_field = drawn.family == "sources" and rng.random() < 0.7
    if has_field:
        drawn.latents["f"] = random_field(drawn, size, size * rng.uniform(0, 1), None, 40)
        drawn.add("source", -rz.source("f"))
    elif rng.random() < 0.6:
        known = size * float(rng.uniform(0.5, 2) * rng.choice([-1, 1]))
        prior = dist.Normal(known, abs(known) / 2)
        drawn.add("source", -rz.source(drawn.number("f", prior, known)))
    if (drawn.family == "sources" and not has_field) or rng.random() < 0.4:
        drawn.wells = inside[: int(rng.integers(1, 4))]
        rate = drawn.strength * units.state * units.diffusivity
        rates = rate * rng.uniform(0.3, 1.5, len(drawn.wells)) * rng.choice([-1, 1])
        given: Any = rates
        if drawn.family == "sources" and not has_field:
            drawn.latents["w"] = dist.Normal(jnp.asarray(rates), 0.5 * rate)
            given = "w"
        drawn.add("wells", -rz.point_source(drawn.wells, given))
    if drawn.ground.has_river:
        conductance = drawn.strength * units.diffusivity / units.length * between(rng, 0.3, 3)
        level = float(units.state * rng.uniform(-1, 1))
        given = drawn.number("c", positive(conductance, 0.7), conductance)
        drawn.add("river", rz.robin(given, level, on=RIVER))


def boundary(drawn: Drawn) -> dict[str, Any]:
    """Values on the inflow, given or unknown; on the outflow one of four conditions."""
    rng, units = drawn.rng, drawn.units
    size, length = units.state, units.length
    if drawn.family == "boundary":
        kernel = rz.priors.Matern52(
            float(length * rng.uniform(0.3, 1.0)), float(size * rng.uniform(0.3, 1))
        )
        prior = rz.BoundaryGP(
            kernel, mean=float(size * rng.uniform(-1, 1)), inducing=int(rng.integers(4, 13))
        )
        dirichlet: dict[str, Any] = {INFLOW: rz.Unknown(prior)}
    else:
        level, slope = (float(size * x) for x in rng.uniform(-1, 1, 2))
        across = jnp.asarray([-drawn.ground.way[1], drawn.ground.way[0]]) / length
        dirichlet = {INFLOW: lambda x: level + slope * (across @ x)}
    kinds = ["value", "flux", "exchange", "free"]
    kind = str(rng.choice(kinds, p=[0.1, 0.2, 0.2, 0.5] if drawn.peclet > 1 else None))
    if kind == "value":
        dirichlet[OUTFLOW] = float(size * rng.uniform(-1, 1))
    elif kind == "flux":
        flux = float(size * units.diffusivity / length * rng.uniform(-1, 1))
        prior = dist.Normal(flux, abs(flux))
        drawn.add("flux", rz.neumann(drawn.number("q", prior, flux, 0.4), on=OUTFLOW))
    elif kind == "exchange":
        conductance = units.diffusivity / length * between(rng, 0.3, 10)
        drawn.add("exchange", rz.robin(conductance, float(size * rng.uniform(-1, 1)), on=OUTFLOW))
    return dirichlet
