"""A fit: the process by what was observed, the mode, and the Gaussian about it."""

from dataclasses import dataclass, replace
from time import process_time

import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from jaxtyping import Float

from riesz.fem.linear.linear_solve import SparseLU
from riesz.problem.problem import InverseProblem
from riesz_paper.data.hanford import Site
from riesz_paper.experiments.hanford.flow import UNKNOWN, flow_problem, measured
from riesz_paper.experiments.hanford.prior import (
    KERNELS,
    CellPrior,
    Choice,
    KnownValues,
    Process,
    conditioned,
    likeliest,
    likeliest_for_values,
    values_alone,
    with_heads,
)
from riesz_paper.experiments.hanford.search import (
    FoundMode,
    found_mode,
    heads_at,
    linearised,
    state_at,
)

EXACT_SD = 0.001
"""Of heads, m, that are exact: a millimetre."""

NOISY_HEAD_SD, NOISY_VALUE_SD = 0.1, 0.3
"""Of heads, m, and of logarithms of transmissivity, where data are noisy."""

FIRST_ERROR_SD = 0.2
"""Of heads, m, that another discretisation made: where the search for it begins."""

EXPONENTIAL = "matern12"
"""The kernel that is usual for logarithms of transmissivity, told apart whatever its weight."""

FAR_BEHIND = np.log(100)
"""Kernels under which data are so much less likely, in logarithms, do not count."""

MOST_ROUNDS, SAME = 3, 0.05
"""Of the search for a process, and changes of its logarithms after which it is the same."""


@dataclass(frozen=True, eq=False)
class Data:
    """Values of the field and heads, with the standard deviations of their noise."""

    known: KnownValues
    heads: Float[np.ndarray, " well"]
    head_sd: float
    is_guess: bool = False  # whether that is to be found too


def true_heads(site: Site, problem: InverseProblem) -> Float[np.ndarray, " well"]:
    """At the wells, by our own solver."""
    return heads_at(problem, site.log_transmissivity)


def observed(
    site: Site, problem: InverseProblem, kind: str, number: int, which: int, seed: int
) -> Data:
    """The data of a set: `exact`, `noisy`, or with heads of the authors' `finite-volume` method."""
    cells = site.known_cells(number, which)
    values = site.log_transmissivity[cells]
    if kind == "finite-volume":
        heads = site.finite_volume_heads[site.wells]
        return Data(KnownValues(cells, values, 0.0), heads, FIRST_ERROR_SD, is_guess=True)
    heads = true_heads(site, problem)
    if kind == "exact":
        return Data(KnownValues(cells, values, 0.0), heads, EXACT_SD)
    rng = np.random.default_rng([seed, which])
    heads = heads + NOISY_HEAD_SD * rng.normal(size=len(heads))
    values = values + NOISY_VALUE_SD * rng.normal(size=len(values))
    return Data(KnownValues(cells, values, NOISY_VALUE_SD), heads, NOISY_HEAD_SD)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Of the field, cell by cell, as a Gaussian."""

    mean: Float[np.ndarray, " cell"]
    sd: Float[np.ndarray, " cell"]


@dataclass(frozen=True, eq=False)
class Found:
    """One kernel: the mode with its prior, how likely data are, and the process they ask for."""

    choice: Choice
    prior: CellPrior
    mode: FoundMode
    head_sd: float
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found, and what it took."""

    field: Estimate
    alone: Estimate  # by the values without heads
    exponential: Estimate  # by the exponential kernel alone
    each: tuple[Found, ...]  # kernels that count, and the exponential one
    data: Data
    weights: Float[np.ndarray, " kernel"]
    num_linearised: int
    cpu_seconds: dict[str, float]
    exponential_seconds: float

    @property
    def best(self) -> Found:
        return self.each[int(np.argmax(self.weights))]


def first_problem(site: Site, data_kind: str, number: int) -> InverseProblem:
    """Any prior of the right size will do to pose it."""
    cells = site.known_cells(number, 0)
    sd = NOISY_VALUE_SD if data_kind == "noisy" else 0.0
    known = KnownValues(cells, site.log_transmissivity[cells], sd)
    prior = conditioned(site, Process("matern12", 3.0, 0.1, 7.0), known)
    return measured(site, flow_problem(site, prior), prior, np.zeros(len(site.wells)), 1.0)


def warm_up(problem: InverseProblem) -> None:
    """Run each program once, so that fits are timed by what they compute."""
    logs = jnp.log(problem.z(jnp.zeros(problem.num_coordinates))[UNKNOWN].weights)
    state_at(problem, logs, SparseLU())
    linearised(problem, logs, SparseLU())


class Clock:
    """Seconds of the processors, by step, and linearisations."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self.num_linearised = 0
        self.begin()

    def begin(self) -> None:
        self.last = process_time()

    def __call__(self, name: str) -> None:
        now = process_time()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def fit(site: Site, problem: InverseProblem, data: Data) -> Fit:
    """Each kernel gets its say, and counts as much as all data are likely under it."""
    clock = Clock()
    alone = values_alone(site, data.known)
    by_values = [likeliest_for_values(kernel, alone) for kernel in KERNELS]
    likeliest_alone = max(by_values, key=lambda one: one.log_likelihood)
    before = conditioned(site, likeliest_alone.process, data.known)
    clock("values alone")
    clocks = {choice.process.kernel: Clock() for choice in by_values}
    first = [found_by(site, problem, data, one, clocks) for one in by_values]
    most = max(one.log_likelihood for one in first)
    near = [one for one in first if one.log_likelihood > most - FAR_BEHIND or is_exponential(one)]
    each = tuple(settled(site, problem, data, one, clocks) for one in near)
    logs = np.array([one.log_likelihood for one in each])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    fields = [gaussian_about(one) for one in each]
    (exponential,) = (f for f, one in zip(fields, each, strict=True) if is_exponential(one))
    seconds = dict(clock.seconds)
    for own in clocks.values():
        for name, value in own.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + value
    return Fit(
        field=mixed(fields, weights),
        alone=Estimate(before.mean, np.sqrt(before.variances)),
        exponential=exponential,
        each=each,
        data=data,
        weights=weights,
        num_linearised=sum(own.num_linearised for own in clocks.values()),
        cpu_seconds=seconds,
        exponential_seconds=sum((clock.seconds | clocks[EXPONENTIAL].seconds).values()),
    )


def is_exponential(found: Found) -> bool:
    return found.choice.process.kernel == EXPONENTIAL


def found_by(
    site: Site,
    problem: InverseProblem,
    data: Data,
    choice: Choice,
    clocks: dict[str, Clock],
    near: FoundMode | None = None,
) -> Found:
    """The mode with a process, and the process that values and heads then ask for."""
    clock = clocks[choice.process.kernel]
    clock.begin()
    prior = conditioned(site, choice.process, data.known)
    clock("prior")
    mode = found_mode(problem, prior, data.heads, data.head_sd, near=near)
    clock.num_linearised += mode.num_linearised
    clock("mode")
    after = with_both(site, data, mode, choice.process)
    clock("process")
    return Found(after, prior, mode, data.head_sd, after.log_likelihood)


def settled(
    site: Site, problem: InverseProblem, data: Data, found: Found, clocks: dict[str, Clock]
) -> Found:
    """The same again until the process asked for is the one that was taken."""
    for _ in range(MOST_ROUNDS):
        choice = found.choice
        data = replace(data, head_sd=found.head_sd * choice.noise_factor)
        found = found_by(site, problem, data, choice, clocks, near=found.mode)
        if is_same(found.choice, choice.process):
            break
    return found


def mixed(fields: list[Estimate], weights: Float[np.ndarray, " field"]) -> Estimate:
    """The mean and standard deviation of a mixture."""
    means = np.stack([one.mean for one in fields])
    variances = np.stack([one.sd**2 for one in fields])
    mean = weights @ means
    return Estimate(mean, np.sqrt(weights @ (variances + (means - mean) ** 2)))


def with_both(site: Site, data: Data, mode: FoundMode, process: Process) -> Choice:
    """The process by values and heads, these linear about the mode."""
    linear = data.heads - mode.heads + mode.rows @ mode.field
    both = with_heads(site, data.known, mode.rows, linear, data.head_sd, is_scaled=data.is_guess)
    return likeliest(process.kernel, both, (process.variance, process.length))


def is_same(after: Choice, process: Process) -> bool:
    now = (after.process.variance, after.process.length, after.noise_factor)
    before = (process.variance, process.length, 1.0)
    return bool(np.abs(np.log(now) - np.log(before)).max() < SAME)


def gaussian_about(found: Found) -> Estimate:
    r"""The Gaussian about a mode, with heads as they are linear there (Gauss and Newton's Laplace).

    With rows $R$ the covariance is $I - R^\top (R R^\top + \sigma^2 I)^{-1} R$.
    """
    prior, rows = found.prior, found.prior.pulled_back(found.mode.rows)
    covariance = rows @ rows.T
    covariance[np.diag_indices_from(covariance)] += found.head_sd**2
    told = sla.solve_triangular(sla.cholesky(covariance, lower=True), rows, lower=True)
    variances = prior.variances - np.sum(prior.deviations(told.T) ** 2, axis=1)
    return Estimate(found.mode.field, np.sqrt(np.maximum(variances, 0.0)))
