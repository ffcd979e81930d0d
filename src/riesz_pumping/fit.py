r"""A fit of one test: a start by closed forms, then the Gaussian about the mode of the equation.

Errors are independent, or readings of a well share some as well: a level, by which all of them are
off, and a drift, which forgets itself over some share of a decade of time. What the model lacks is
not noise, and intervals that take it for noise are too narrow.

The equation is that of flow to a pumped well, in the radius about its axis and in time. The state
is the fall of head. Water comes from the aquifer's storage, through a leaky layer above and from
the well itself, whose casing empties as its level falls. A resistance to what enters the well
(skin) is a ring about its wall that conducts less, drawn inside the wall.

In closed form there is the drawdown about a well of no width in an endless aquifer. Theis (1935):
$\frac{Q}{4\pi T} W(u)$, $u = r^2 S / 4 T t$, with the exponential integral $W(u) = \int_u^\infty
e^{-y}\,dy/y$. Hantush & Jacob (1955), where water comes through a leaky layer of resistance $c$,
have $W(u, r/\lambda) = \int_u^\infty e^{-y - r^2/4\lambda^2 y}\,dy/y$ in its place, $\lambda^2 = T
c$. In the well itself a skin factor $\sigma$ adds $\frac{Q}{2\pi T}\sigma$. Rates that change are
superposed, each change a well of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpy.polynomial.legendre import leggauss
from scipy.optimize import least_squares
from scipy.special import exp1

from riesz import (
    P2,
    Gaussian,
    InverseProblem,
    Laplace,
    Posterior,
    diffusion,
    fit,
    interval,
    inverse_problem,
    observations,
    point_source,
    reaction,
    series,
    storage,
)
from riesz.errors import RieszError
from riesz.fem import scale, time_axis
from riesz.mesh import geometric_ticks
from riesz.observe import AbstractLikelihood, GroupedNormal
from riesz_pumping.well import Numbers, Pumped, Readings

NOISE_SD, LEVEL_SD, DRIFT_SD, MEMORY = SCALES = ("noise_sd", "level_sd", "drift_sd", "memory")
NOISE_PRIORS = {
    **dict.fromkeys(SCALES[:3], dist.LogNormal(np.log(0.01), 1.5)),  # m: half a mm to 20 cm
    MEMORY: dist.LogNormal(0.0, 1.0),  # of the drift, in units of the logarithm of time
}

INDEPENDENT, DRIFT, AUTO = "independent", "drift", "auto"
NOISES = (INDEPENDENT, DRIFT)

NUM_DRAWS, NUM_CURVES = 20_000, 40
LEAST = 1e-4  # m, of errors where a search begins

Coordinates = Float[np.ndarray, " coordinate"]

PRIORS = {
    "k": dist.LogNormal(np.log(10.0), 3.0),  # m/d: 95 % from silt to gravel
    "Ss": dist.LogNormal(np.log(1e-4), 3.0),  # 1/m
    "c": dist.LogNormal(np.log(100.0), 3.0),  # d
    "rc": dist.LogNormal(np.log(0.1), 1.0),  # m
    "skin": dist.LogNormal(0.0, 2.0),  # a factor: 95 % from 0.02 to 50
}
"""The same for every test: they know no more than that an aquifer is pumped."""

NUM_RING = 8
"""Cells of the ring of a skin, whose radii differ by the factor e: a skin factor of one conducts
in it as the aquifer does."""

REACH = 1e5
"""Radius of the aquifer, m, which no test feels."""

NUM_POINTS = 400
"""Of the quadrature over the logarithm of y, whose integrand is smooth."""

LARGEST = 100.0
"""Above this y the integrand is below 1e-43."""

TRIED = {
    "k": np.geomspace(1e-2, 1e4, 7),
    "Ss": np.geomspace(1e-7, 1e-2, 6),
    "c": (1e2, 1e4),
    "skin": (0.1, 10.0),
}
"""Where a search begins: m/d, 1/m, d, and the skin factor."""

NUM_SEARCHES, NUM_READINGS = 3, 200
"""From the best of these, and by so many readings evenly over time."""

AnyNumbers = Float[np.ndarray, " *reading"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Draws of the parameters, and what readings should have been."""

    posterior: Posterior
    draws: dict[str, Float[np.ndarray, " draw"]]
    predicted: Numbers  # at the mode
    residual: Numbers  # readings less that
    band: tuple[Numbers, Numbers]  # 95 % of what the parameters leave open
    readings_band: tuple[Numbers, Numbers]  # the same of readings, with their errors
    noise: str  # of errors: independent, or some that a well's readings share
    log_evidence: dict[str, float]  # of each kind of noise that was tried


def noise_of(kind: str, seen: Readings) -> tuple[AbstractLikelihood, dict[str, Any]]:
    """The likelihood, and the priors of what it names."""
    if kind == INDEPENDENT:
        return Gaussian(NOISE_SD), {NOISE_SD: NOISE_PRIORS[NOISE_SD]}
    shared = GroupedNormal(
        NOISE_SD,
        [seen.wells[number] for number in seen.well],
        level_sd=LEVEL_SD,
        drift_sd=DRIFT_SD,
        correlation_time=MEMORY,
        times=np.log(seen.time),
    )
    return shared, NOISE_PRIORS


def fit_test(well: Pumped, seen: Readings, *, noise: str = AUTO, seed: int = 0) -> Fitted:
    """What readings of a test say of the aquifer.

    With `noise="auto"` errors are of the kind under which the readings are more probable.
    """
    check_readings(well, seen)
    guess, found, failed = closed_form_guess(well, seen), {}, None
    for kind in NOISES if noise == AUTO else (noise,):
        own = pumping_problem(well, seen, *noise_of(kind, seen))
        try:
            found[kind] = normal_about(own, coordinates_at(own, guess), seed)
        except RieszError as error:
            failed = error
    if not found:
        assert failed is not None
        raise failed
    evidence = {kind: laplace_evidence(one) for kind, one in found.items()}
    chosen = max(evidence, key=evidence.__getitem__)
    posterior, problem = found[chosen], found[chosen].problem
    levels = level_function(problem)
    predicted = levels(posterior.coordinate_mean())
    coordinates = posterior.sample(jr.key(seed), NUM_DRAWS)
    curves = np.array([levels(one) for one in coordinates[:NUM_CURVES]])
    variance, errors = curves.var(axis=0, ddof=1), problem.z(posterior.coordinate_mean())
    wide = sum(float(errors[name]) ** 2 for name in SCALES[:3] if name in errors)
    spread, of_readings = (1.96 * np.sqrt(one) for one in (variance, variance + wide))
    return Fitted(
        posterior=posterior,
        draws={name: np.asarray(value) for name, value in jax.vmap(problem.z)(coordinates).items()},
        predicted=predicted,
        residual=seen.level - predicted,
        band=(predicted - spread, predicted + spread),
        readings_band=(predicted - of_readings, predicted + of_readings),
        noise=chosen,
        log_evidence=evidence,
    )


def laplace_evidence(posterior: Posterior) -> float:
    """Of the readings, by the curvature about the mode."""
    bends = np.log1p(np.asarray(posterior.history["eigenvalues"]))
    return float(-posterior.history["cost"][-1] - 0.5 * bends.sum())


def check_readings(well: Pumped, seen: Readings) -> None:
    """Raise where readings cannot be of such a well."""
    unknowns = len(well.parameters) + 1
    if len(seen) <= unknowns:
        raise RieszError(f"{len(seen)} readings are too few for {unknowns} unknowns.")
    if seen.radius.min() < well.well_radius:
        raise RieszError(
            f"a reading is {seen.radius.min():g} m from the axis of the pumped well, whose radius "
            f"is {well.well_radius:g} m: those in the well itself are at its radius."
        )
    last = seen.time.max()
    taken = sum(change * max(last - time, 0.0) for time, change in well.changes())
    if taken * seen.level.mean() <= 0:
        raise RieszError(
            f"{taken:.4g} m3 were pumped, but drawdowns are {seen.level.mean():.3g} m in the mean: "
            "a fall of head is positive, and so is a rate of water taken out."
        )
    if well.skin and not well.inside(seen.radius).any():
        raise RieszError(
            f"no reading is of the pumped well itself, at {well.well_radius:g} m: what it resists "
            "(skin) is felt nowhere else. Leave skin out, or give readings in the well."
        )


def normal_about(problem: InverseProblem, start: Coordinates, seed: int = 0) -> Posterior:
    return fit(problem, Laplace(start=jnp.asarray(start)), seed=seed, progress=False, check=False)


def level_function(problem: InverseProblem) -> Callable[[Any], Numbers]:
    """What readings should have been, compiled once."""
    found = jax.jit(lambda own: problem.predict(problem.state(own), problem.z(own)))

    def levels(own: Any) -> Numbers:
        values = found(jnp.asarray(own))
        problem.check_solved(jnp.asarray(own)[None], values[None])
        return np.asarray(values)

    return levels


def closed_form_guess(well: Pumped, seen: Readings) -> dict[str, float]:
    """By closed forms; what is left over is half noise."""
    values = closest(well, seen)
    rest = max(rms_of(seen.level - superpose(well, seen.radius, seen.time, values)), LEAST)
    errors = {NOISE_SD: rest / 2, LEVEL_SD: rest, DRIFT_SD: rest / 2, MEMORY: 1.0}
    return values | {"rc": well.well_radius} | errors


def coordinates_at(
    problem: InverseProblem, values: Mapping[str, float], others: Coordinates | None = None
) -> Coordinates:
    """Where unknowns have these values; those not named are as in `others`, or at their median."""
    names = problem.latents.coordinate_names()
    found = np.zeros(len(names)) if others is None else np.array(others)
    for place, name in enumerate(names):
        prior = (PRIORS | NOISE_PRIORS)[name]
        if name in values:
            found[place] = (np.log(values[name]) - prior.loc) / prior.scale
    return found


@dataclass(frozen=True)
class Resolution:
    """How fine the section about a pumped well is, and how steps in time grow.

    Levels follow the logarithms of radius and time, and so do cells and steps.
    """

    num_cells: int
    growth: float  # of steps, from each to the next
    early: float  # the first step is shorter than the time of the first reading by this factor


FINE = Resolution(240, 1.03, 300.0)
"""With which closed forms are met to a thousandth."""


def growing_times(first: float, last: float, growth: float) -> Float[np.ndarray, " time"]:
    """Steps that grow by one factor, about `first` at the beginning."""
    count = np.log(1 + (growth - 1) * last / first) / np.log(growth)
    return geometric_ticks(0.0, last, int(np.ceil(count)), first=first)


def times_of(well: Pumped, seen: Readings, by: Resolution) -> Float[np.ndarray, " time"]:
    """Steps that grow anew whenever the rate changes, up to the last reading."""
    last = seen.time.max()
    starts = np.array([time for time, _ in well.rates if time < last])
    found = [starts[:1]]
    for start, end in zip(starts, np.append(starts[1:], last), strict=True):
        within = seen.time[(seen.time > start) & (seen.time <= end)]
        first = (within.min() if within.size else end) - start
        found.append(start + growing_times(first / by.early, end - start, by.growth)[1:])
        found[-1][-1] = end  # to the last digit: there the next rate begins
    return np.concatenate(found)


def conductivity_with_skin(well: Pumped) -> Callable[..., Any]:
    """Times the thickness: between two radii a factor e apart, less by the skin factor."""

    def fit_from(x: Any, z: Any) -> Any:
        own = well.thickness * z["k"]
        return jnp.where(x[0] < well.well_radius, own / z["skin"], own)

    return fit_from


def pumping_problem(
    well: Pumped,
    seen: Readings,
    likelihood: AbstractLikelihood,
    noise_priors: dict[str, Any],
    by: Resolution = FINE,
) -> InverseProblem:
    """Readings of a test as an inverse problem."""
    radii = geometric_ticks(well.well_radius, REACH, by.num_cells)
    wall, places = well.well_radius, seen.radius
    conductivity = scale("k", well.thickness)
    if well.skin:
        ring = well.well_radius * np.exp(np.linspace(-1, 0, NUM_RING + 1))
        radii, wall = np.concatenate([ring[:-1], radii]), ring[0]
        places = np.where(well.inside(places), wall, places)
        conductivity = conductivity_with_skin(well)
    mesh = interval(radii)
    when, rates = np.transpose(well.rates)
    rate = series(when, rates[:, None]) if len(rates) > 1 else rates
    equation = (
        storage(scale("Ss", well.thickness))
        + diffusion(conductivity)
        - point_source([[wall]], rate)
    )
    if well.leaky:
        equation = equation + reaction(lambda x, z: 1 / z["c"])
    # All of the casing's water for each part of the circle that is the well's wall.
    if well.stores:
        equation = equation + storage(lambda x, z: z["rc"] ** 2 / (2 * wall), on="left")
    elif well.casing_radius:
        equation = equation + storage(well.casing_radius**2 / (2 * wall), on="left")
    return inverse_problem(
        P2(mesh, axisymmetric=True),
        equation,
        latents={name: PRIORS[name] for name in well.parameters} | noise_priors,
        observations=observations(places[:, None], seen.level, times=seen.time),
        likelihood=likelihood,
        dirichlet={"right": 0.0},
        times=time_axis(times_of(well, seen, by)),
        initial=0.0,
    )


def leaky_well_function(u: AnyNumbers, ratio: AnyNumbers) -> AnyNumbers:
    """Hantush's W(u, r / lambda), by Gauss's rule over log y; zero from `LARGEST` on."""
    nodes, weights = leggauss(NUM_POINTS)
    low = np.log(np.minimum(u, LARGEST))
    half = (np.log(LARGEST) - low) / 2
    y = np.exp(low[..., None] + half[..., None] * (1 + nodes))
    return half * (np.exp(-y - ratio[..., None] ** 2 / (4 * y)) @ weights)


def superpose(
    well: Pumped, radius: AnyNumbers, time: AnyNumbers, values: Mapping[str, float]
) -> AnyNumbers:
    """Drawdown about a well of no width, which stores no water, with `values` of its parameters."""
    transmissivity, storativity = (values[name] * well.thickness for name in ("k", "Ss"))
    total = np.zeros_like(time)
    for start, rate in well.changes():
        later = time > start
        r, t = radius[later], time[later] - start
        u = r**2 * storativity / (4 * transmissivity * t)
        if well.leaky:
            drawdown = leaky_well_function(u, r / np.sqrt(transmissivity * values["c"]))
        else:
            drawdown = exp1(u)
        if well.skin:
            drawdown = drawdown + 2 * values["skin"] * well.inside(r)
        total[later] += rate / (4 * np.pi * transmissivity) * drawdown
    return total


def closest(well: Pumped, seen: Readings) -> dict[str, float]:
    """Values of k, Ss, c and skin by least squares: a search that costs next to nothing."""
    names = [name for name in TRIED if name in well.parameters]
    some = np.argsort(seen.time, kind="stable")
    some = some[np.unique(np.linspace(0, len(some) - 1, NUM_READINGS).astype(int))]

    def rest(logs: AnyNumbers) -> np.ndarray:
        values = dict(zip(names, np.exp(logs).tolist(), strict=True))
        return superpose(well, seen.radius[some], seen.time[some], values) - seen.level[some]

    starts = [np.log(one) for one in product(*(TRIED[name] for name in names))]
    starts.sort(key=lambda logs: float(np.sum(rest(logs) ** 2)))
    bounds = [np.log([1e-3 * min(TRIED[name]), 1e3 * max(TRIED[name])]) for name in names]
    found = [
        least_squares(rest, one, bounds=tuple(np.transpose(bounds)), x_scale="jac")
        for one in starts[:NUM_SEARCHES]
    ]
    best = min(found, key=lambda one: float(one.cost))
    return dict(zip(names, np.exp(best.x).tolist(), strict=True))


def rms_of(values: Numbers) -> float:
    return float(np.sqrt(np.mean(values**2)))
