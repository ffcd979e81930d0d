"""Blind problems: all that a user would bring, and the truth behind it, from a seed and a number.

Data come from a mesh twice finer than the one that is fitted, so that they hold its error too. In
one of four problems the truth breaks the model: see `breaks`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Bool, Float

import riesz as rz
from riesz.errors import RieszError
from riesz.fem.elements.space import Operator
from riesz.problem.finer import on_refined_mesh
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.breaks import (
    EXTRA,
    PRIOR,
    STRENGTHS,
    TERM,
    ZONE,
    Break,
    extra_prior,
    hidden_term,
    is_clear,
    shift_of,
    visibility,
)
from riesz_paper.experiments.blind.ground import Ground, ground, scattered, zoned
from riesz_paper.experiments.blind.model import FAMILIES, Model, between, draw_model, draw_units
from riesz_paper.experiments.blind.solved import seen

NOISES = ("normal", "student", "outliers", "censored")
NOISE_CHANCES = (0.45, 0.2, 0.15, 0.2)
NOISE_NAME = "noise_sd"
RELATIVE_NOISE = (0.01, 0.1)
"""Of the spread of noiseless readings."""

OVER_MESH_ERROR = 4.0
"""Noise is at least so many times the error of the mesh at the sensors (root mean square)."""

FEWEST_SENSORS, MOST_SENSORS = 5, 200
NUM_PROBES = 40
MISSPECIFIED_SHARE = 0.25
NUM_PLACES = 6
"""Where a hidden term is tried before another kind of break is."""

MOST_REDRAWN = 8
"""Problems without solutions in a row, in place of one, that chance could bring about."""

FREEDOM = 4.0
STEP = 1e-3
"""Of coordinates, for slopes of readings."""


@dataclass(frozen=True)
class BlindProblem:
    """A problem, and what its user does not know."""

    seed: int
    number: int
    problem: InverseProblem
    model: Model
    shape: str
    noise: str
    clustered: bool
    places: Float[np.ndarray, "probe 2"]  # without a sensor
    probes: Operator  # reads the fitted state there
    true_probes: Float[np.ndarray, " probe"]
    broken: Break | None


@dataclass(frozen=True)
class Site:
    """Where a problem plays: the ground, the model on it, and the sensors."""

    ground: Ground
    model: Model
    sensors: Float[np.ndarray, "sensor 2"]
    probes: Float[np.ndarray, "probe 2"]

    def posed(self, values: Any, likelihood: Any, **more: Any) -> InverseProblem:
        """As the user poses it, perhaps with more unknowns."""
        return rz.inverse_problem(
            self.ground.mesh,
            self.model.equation,
            latents=dict(self.model.latents) | more,
            observations=rz.observations(self.sensors, values),
            likelihood=likelihood,
            dirichlet=self.model.dirichlet,
        )

    def blank(self) -> InverseProblem:
        """Without data."""
        return self.posed(np.zeros(len(self.sensors)), rz.Gaussian(1.0))

    def true(self, hidden: str | None = None) -> InverseProblem:
        """On the finer mesh; with `hidden`, with a term that the model does not know."""
        equation, dirichlet = self.model.equation, dict(self.model.dirichlet)
        latents = dict(self.model.latents)
        for tag, value in self.model.dirichlet.items():
            if isinstance(value, rz.Unknown):  # named, so that what the model lacks comes last
                dirichlet[tag], latents[f"u_{tag}"] = f"u_{tag}", value.prior
        if hidden is not None:
            equation = equation + hidden_term(self.model, hidden)
            latents[EXTRA] = extra_prior()
        posed = rz.inverse_problem(
            self.ground.mesh,
            equation,
            latents=latents,
            observations=rz.observations(self.sensors, np.zeros(len(self.sensors))),
            likelihood=rz.Gaussian(1.0),
            dirichlet=dirichlet,
        )
        return on_refined_mesh(posed)

    def reader(self, problem: InverseProblem) -> Operator:
        return rz.fem.point_operator(problem.forward.space, self.probes)


def draw_site(rng: np.random.Generator) -> tuple[Site, bool]:
    """A ground, a model and sensors, and whether these stand in clusters."""
    units, family = draw_units(rng), str(rng.choice(FAMILIES))
    under = ground(rng, units.length, wants_river=bool(rng.random() < 0.25))
    zones = zoned(under.mesh, int(rng.integers(2, 6)), rng)
    under = Ground(under.shape, zones, under.length, under.edge, under.way, under.has_river)
    model = draw_model(under, units, family, rng)
    clustered = bool(rng.random() < 0.3)
    count = round(between(rng, FEWEST_SENSORS, MOST_SENSORS))
    places = scattered(under.mesh, 4 * count, rng, clustered=clustered)
    if len(model.wells):
        # Within a cell of a well no mesh is right: nobody would put a sensor there.
        apart = np.linalg.norm(places[:, None] - model.wells[None], axis=2).min(axis=1)
        places = places[apart > 1.5 * under.edge]
    probes = scattered(under.mesh, NUM_PROBES, rng, clustered=False)
    return Site(under, model, places[:count], probes), clustered


def draw_problem(seed: int, number: int) -> BlindProblem:
    """The same for the same seed and number, on any machine.

    Where its equation has no solution for most of the prior, as where flow towards a boundary
    without a value lets states grow beyond all numbers, another one is drawn in its place.
    """
    streams = [[seed, number], *([seed, number, again] for again in range(1, MOST_REDRAWN))]
    for stream in streams:
        found = drawn(np.random.default_rng(stream), seed, number)
        if found is not None:
            return found
    raise RieszError(f"no solutions for {MOST_REDRAWN} problems in a row: this is no chance.")


def drawn(rng: np.random.Generator, seed: int, number: int) -> BlindProblem | None:
    """A problem with its data, or nothing where its equation is seldom solvable."""
    site, clustered = draw_site(rng)
    relative = between(rng, *RELATIVE_NOISE)
    noise = str(rng.choice(NOISES, p=NOISE_CHANCES))
    learns_noise = noise == "normal" and rng.random() < 0.15
    truth, broken = None, None
    if rng.random() < MISSPECIFIED_SHARE:
        truth, broken = broken_truth(site, relative, rng)
    if truth is None:
        truth = plain_truth(site, relative, rng)
    if truth is None:
        return None
    values, below = measured(truth, noise, rng)
    likelihood: Any = rz.Gaussian(truth.noise_sd)
    more: dict[str, Any] = {}
    if learns_noise:
        likelihood = rz.Gaussian(NOISE_NAME)
        more = {NOISE_NAME: dist.LogNormal(float(np.log(truth.noise_sd)), 0.5)}
    elif noise in ("student", "outliers"):
        likelihood = rz.StudentT(truth.noise_sd, FREEDOM)
    elif noise == "censored":
        likelihood = rz.Censored(truth.noise_sd, below)
    problem = site.posed(values, likelihood, **more)
    return BlindProblem(
        seed,
        number,
        problem,
        site.model,
        site.ground.shape,
        "learned" if learns_noise else noise,
        clustered,
        site.probes,
        site.reader(problem),
        truth.probes,
        broken,
    )


@dataclass(frozen=True)
class Truth:
    """What is to be read where there is no noise."""

    readings: Float[np.ndarray, " sensor"]
    probes: Float[np.ndarray, " probe"]
    noise_sd: float


def spread_of(readings: Float[np.ndarray, " sensor"]) -> float:
    """Of readings, by which noise is measured."""
    return float(np.std(readings)) + 1e-3 * float(np.abs(readings).max())


def noise_of(
    site: Site,
    relative: float,
    own: Float[np.ndarray, " coordinate"],
    readings: Float[np.ndarray, " sensor"],
) -> float:
    """A share of the spread of readings, and no less than it takes to hide the mesh's error.

    Who measures better than the mesh can tell takes a finer one.
    """
    problem = site.blank()
    on_mesh = seen(problem, site.reader(problem), own[None]).sensors[0]
    error = float(np.sqrt(np.mean((on_mesh - readings) ** 2)))
    return max(relative * spread_of(readings), OVER_MESH_ERROR * error)


def plain_truth(site: Site, relative: float, rng: np.random.Generator) -> Truth | None:
    """Unknowns from their priors, until the equation has a solution for them."""
    problem = site.true()
    rows = rng.standard_normal((8, problem.num_coordinates))
    found = seen(problem, site.reader(problem), rows)
    for own, readings, probes in zip(rows, found.sensors, found.probes, strict=True):
        if np.isfinite(readings).all() and np.isfinite(probes).all():
            return Truth(readings, probes, noise_of(site, relative, own, readings))
    return None


def broken_truth(
    site: Site, relative: float, rng: np.random.Generator
) -> tuple[Truth | None, Break | None]:
    """The first kind of break, in a random order, that can be seen."""
    for kind in rng.permutation([TERM, ZONE, PRIOR]):
        by = off_prior if kind == PRIOR else beside_model
        found = by(site, relative, rng, str(kind))
        if found is not None:
            return found
    return None, None


def slopes_of(
    site: Site, coordinates: Float[np.ndarray, " coordinate"]
) -> Float[np.ndarray, "sensor coordinate"]:
    """Of readings by the unknowns of the model, on its own mesh."""
    problem = site.blank()
    rows = coordinates + np.vstack([np.zeros(len(coordinates)), STEP * np.eye(len(coordinates))])
    found = seen(problem, site.reader(problem), rows).sensors
    return (found[1:] - found[0]).T / STEP


def beside_model(
    site: Site, relative: float, rng: np.random.Generator, kind: str
) -> tuple[Truth, Break] | None:
    """A term or a zone that the model lacks, as weak as can be seen, in one of some places."""
    model = site.model
    what = "zone"
    if kind == TERM:
        has_loss = {"reaction", "cubic loss"} & set(model.terms)
        what = "source" if has_loss else str(rng.choice(["source", "reaction"]))
    stands = {"zone": "a", "source": "f", "reaction": "k"}[what]
    problem = site.true(what)
    start = problem.latents.slices()[EXTRA].start
    own = rng.standard_normal(start)
    slopes = slopes_of(site, own)
    sign = 1.0 if what != "source" else float(rng.choice([-1.0, 1.0]))
    finer = rz.mesh.refine(site.ground.mesh).mesh
    for place in scattered(finer, NUM_PLACES, rng, clustered=False) / model.units.length:
        rows = np.stack([[*own, sign * s, *place] for s in (0.0, *STRENGTHS)])
        found = seen(problem, site.reader(problem), rows)
        noise_sd = noise_of(site, relative, own, found.sensors[0])
        for readings, probes in zip(found.sensors[1:], found.probes[1:], strict=True):
            moved = (readings - found.sensors[0]) / noise_sd
            if not (np.isfinite(moved).all() and np.isfinite(probes).all()):
                continue
            size, left = visibility(moved, slopes / noise_sd)
            if is_clear(kind, moved, size):
                named = (stands,) if stands in model.latents else ()
                broken = Break(kind, what, named, moved, left, size)
                return Truth(readings, probes, noise_sd), broken
    return None


def off_prior(
    site: Site, relative: float, rng: np.random.Generator, kind: str
) -> tuple[Truth, Break] | None:
    """An unknown that lies three sd from the middle of its prior, on one of both sides."""
    problem = site.true()
    own = rng.standard_normal(problem.num_coordinates)
    slices = problem.latents.slices()
    for name in rng.permutation(list(slices)):
        part, shift = slices[str(name)], shift_of(problem, str(name))
        base = own.copy()
        base[part] = 0.0 if np.ptp(shift) == 0 else own[part]
        rows = np.tile(base, (3, 1))
        side = rng.permutation([-1.0, 1.0])
        rows[1, part] += side[0] * shift
        rows[2, part] += side[1] * shift
        found = seen(problem, site.reader(problem), rows)
        for number in (1, 2):
            readings, probes = found.sensors[number], found.probes[number]
            noise_sd = noise_of(site, relative, rows[number], readings)
            moved = (readings - found.sensors[0]) / noise_sd
            if not (np.isfinite(moved).all() and np.isfinite(probes).all()):
                continue
            slopes = slopes_of(site, rows[number])
            size, left = visibility(moved, slopes / noise_sd)
            if is_clear(kind, moved, size):
                broken = Break(PRIOR, f"prior of {name}", (str(name),), moved, left, size)
                return Truth(readings, probes, noise_sd), broken
    return None


def measured(
    truth: Truth, noise: str, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " sensor"], Bool[np.ndarray, " sensor"]]:
    """What instruments say, and which values are only known to be limits."""
    count, sd = len(truth.readings), truth.noise_sd
    errors = rng.standard_normal(count)
    if noise == "student":
        errors = rng.standard_t(FREEDOM, count)
    if noise == "outliers":
        wrong = rng.choice(count, max(1, round(0.07 * count)), replace=False)
        errors[wrong] += rng.choice([-1, 1], len(wrong)) * rng.uniform(6, 15, len(wrong))
    values, below = truth.readings + sd * errors, np.zeros(count, bool)
    if noise == "censored":
        limit = float(np.quantile(values, rng.uniform(0.2, 0.5)))
        below = values < limit
        values = np.maximum(values, limit)
    return values, below
