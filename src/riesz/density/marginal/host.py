r"""The same algebra on the host, where unknowns that are not integrated out are scales and noise.

The data are then normal about a mean that nothing changes, with the covariance
$S = \sum_c R_c(s_c) R_c(s_c)^\top + \operatorname{diag}\sigma^2$: each unknown field $c$ has
columns $R_c$ that depend on its own scales $s_c$ alone. Small programs give these columns; sums,
factors and slopes are NumPy's, for which nothing is compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from riesz.arrays import on_device
from riesz.density.marginal.points import AbstractPointMap, TabulatedPoints, point_map_at_sensors
from riesz.density.marginal.systems import AbstractDataSystem, Columns, data_system
from riesz.fem.terms.coefficient import Constant
from riesz.method.training import minimise
from riesz.observe.effects import WithEffects
from riesz.priors.fields import FieldCoefficient
from riesz.priors.gaussian_process import KernelField, ScaledField, ScaledNodes
from riesz.problem import linearity
from riesz.problem.problem import InverseProblem

ROUGH = 1e-5
"""What a step of a rough search gains at least, as a share of the cost."""

ROOM = 2e8
"""Bytes of columns that are remembered."""

STEP = 1e-4
"""Of central differences of columns by their scales, in prior standard deviations."""

Scales = Float[np.ndarray, " other"]
Growth = Float[np.ndarray, " column"]


@dataclass(frozen=True, eq=False)
class Component:
    """What one unknown adds to the data, by its standard normal coordinates.

    Where `growth` is known, a column is exp(growth s) times what only the other scales change, with
    its first scale s.
    """

    name: str
    columns: Callable[[Scales], Columns]
    scales: Int[np.ndarray, " scale"]  # where its scales stand among the others
    linear: Int[np.ndarray, " column"]  # and its coordinates among the linear ones
    growth: Growth | None = None


@dataclass(frozen=True, eq=False)
class DataModel:
    """Data that are normal given scales and noise, which have standard normal coordinates."""

    components: tuple[Component, ...]
    misfit: Float[np.ndarray, " sensor"]
    noise_sd: Callable[[Scales], Float[np.ndarray, " sensor"]]
    noise_places: Int[np.ndarray, " noise"]  # of what the noise reads, among the others
    num_others: int
    num_linear: int

    def system(self, others: Scales) -> AbstractDataSystem:
        columns = [one.columns(others[one.scales]) for one in self.components]
        responses = np.zeros((len(self.misfit), self.num_linear))
        for one, own in zip(self.components, columns, strict=True):
            responses[:, one.linear] += own
        return data_system(responses, self.misfit, self.noise_sd(others[self.noise_places]))

    def log_density(self, others: ArrayLike) -> float:
        """Without its slope; minus infinity where there is none."""
        others = np.asarray(others, float)
        try:
            return log_prior(others) + self.system(others).log_likelihood()
        except (np.linalg.LinAlgError, ValueError):
            return -np.inf

    def cost(self, others: ArrayLike) -> tuple[float, Scales]:
        """The negative log-density and its slope; infinite where there is none."""
        others = np.asarray(others, float)
        try:
            system = self.system(others)
            value = log_prior(others) + system.log_likelihood()
            by_variance = 0.5 * (system.weights**2 - system.own_precisions)
        except (np.linalg.LinAlgError, ValueError):
            return np.inf, np.zeros_like(others)
        slope = -others
        for one in self.components:
            columns, here = system.responses[:, one.linear], others[one.scales]
            # The slope of the log-likelihood by the columns.
            own = np.outer(system.weights, system.weights @ columns) - system.precise(columns)
            for number, step in enumerate(STEP * np.eye(len(here))):
                if number == 0 and one.growth is not None:
                    change = one.growth * columns
                else:
                    change = (one.columns(here + step) - one.columns(here - step)) / (2 * STEP)
                slope[one.scales[number]] += np.sum(own * change)
        here = others[self.noise_places]
        for index, step in zip(self.noise_places, STEP * np.eye(len(here)), strict=True):
            ahead, behind = self.noise_sd(here + step), self.noise_sd(here - step)
            slope[index] += by_variance @ (ahead**2 - behind**2) / (2 * STEP)
        if not np.isfinite(value) or not np.isfinite(slope).all():
            return np.inf, np.zeros_like(others)
        return -value, -slope

    def with_cache(self) -> "DataModel":
        """The same, with columns at hand that were met before, as long as they take little room."""
        room = int(ROOM / (8 * max(1, self.num_linear) * len(self.misfit)))

        def cache(function: Callable[[Scales], Columns]) -> Callable[[Scales], Columns]:
            known = lru_cache(room)(lambda content: function(np.frombuffer(content)))
            return lambda scales: known(scales.tobytes())

        kept = tuple(replace(one, columns=cache(one.columns)) for one in self.components)
        return replace(self, components=kept)

    def rough_mode(self, start: Scales | None = None) -> Scales:
        """Nearly the most probable scales and noise: good enough to compare models by."""
        origin = np.zeros(self.num_others) if start is None else start
        if not self.num_others:
            return origin
        return np.asarray(minimise(on_device(origin), self.cost, gain=ROUGH))


def log_prior(others: Scales) -> float:
    return -0.5 * float(others @ others + len(others) * np.log(2 * np.pi))


@linearity.once_per_problem
def rough_mode(problem: InverseProblem) -> Scales | None:
    """By LU: asked for by whoever compares models, and where the engine's search begins."""
    model = data_model(problem, linearity.linear_parts(problem), point_map_at_sensors(problem))
    return None if model is None else model.rough_mode()


def data_model(
    problem: InverseProblem, parts: linearity.Parts, at: AbstractPointMap
) -> DataModel | None:
    """The model of a problem's data; None where other unknowns do more than scale or blur, or
    where observations share noise."""
    if not isinstance(at, TabulatedPoints) or not problem.likelihood.is_independent:
        return None
    others, linear = np.asarray(parts.others), np.asarray(parts.linear)
    components, known = [], []
    for name in parts.names:
        part, latent = problem.latents.slices()[name], problem.latents.latents[name]
        first = part.start + latent.num_scales
        own = np.arange(first, part.stop)
        if not np.isin(own, linear).all():
            return None
        scales = np.searchsorted(others, np.arange(part.start, first))
        known.append(scales)
        columns, growth = component_columns(problem, at, name)
        components.append(Component(name, columns, scales, np.searchsorted(linear, own), growth))
    noise = np.setdiff1d(np.arange(len(others)), np.concatenate([*known, np.zeros(0, int)]))
    if linearity.read_by_state(problem, or_shifts=True)[others[noise]].any():
        return None
    origin = on_device(np.zeros(parts.num_coordinates))
    offset = np.asarray(data_mean_at(problem, at, origin))

    read = problem.likelihood, problem.latents, problem.observed

    def noise_sd(given: Scales) -> Float[np.ndarray, " sensor"]:
        whole = np.zeros(parts.num_coordinates)
        whole[others[noise]] = given
        return np.asarray(noise_at(read, on_device(whole)))

    misfit = np.asarray(problem.observed) - offset
    return DataModel(tuple(components), misfit, noise_sd, noise, len(others), len(linear))


def component_columns(
    problem: InverseProblem, at: TabulatedPoints, name: str
) -> tuple[Callable[[Scales], Columns], Growth | None]:
    """By a program or, for fields that many numbers describe, on the host; and how they grow."""
    likelihood, latent = problem.likelihood, problem.latents.latents[name]
    prescribed, shifts = linearity.beside_the_equation(problem)
    scaled = latent.weights if isinstance(latent, ScaledNodes) else latent
    growth = scaled.growth() if isinstance(scaled, ScaledField) else None
    local = given = None
    if isinstance(likelihood, WithEffects) and name == likelihood.local_name:
        local = likelihood.local
    if local is not None and name not in linearity.by_equation(problem).reads | prescribed.reads:
        given = np.asarray(local.points, float), None
    elif isinstance(latent, ScaledNodes) and name not in prescribed.reads | shifts.reads:
        given = np.asarray(latent.weights.field.nodes, float), np.asarray(at.by_value[name])
    elif isinstance(latent, ScaledField) and is_prescribed_alone(problem, name):
        pieces = [one for one in problem.forward.dirichlet if is_field_of(one.value, name)]
        places = np.concatenate([np.asarray(one.x, float) for one in pieces])
        fixed = np.concatenate([one.position for one in pieces])
        given = places, np.asarray(at.by_prescribed)[:, fixed]
    if isinstance(scaled, ScaledField) and given is not None:
        return partial(field_columns, scaled, *given), growth
    return lambda scales: np.asarray(columns_at(problem, at, name, on_device(scales))), growth


def field_columns(
    latent: ScaledField,
    points: Float[np.ndarray, "point dim"],
    rows: Float[np.ndarray, "sensor point"] | None,
    scales: Scales,
) -> Columns:
    """How the data respond to the other coordinates of a field of which they are sums over points,
    or its values there."""
    columns, weights = latent.linear_parts(points, scales, np.eye(latent.num_rest))
    return (columns if rows is None else rows @ columns) @ weights


def is_field_of(value: Any, name: str) -> bool:
    """Whether a prescribed value is an unknown field by itself, which NumPy can evaluate."""
    is_field = isinstance(value, FieldCoefficient) and value.name == name
    return is_field and isinstance(value.field, KernelField)


def is_prescribed_alone(problem: InverseProblem, name: str) -> bool:
    """Whether an unknown is read by prescribed values alone, each the field itself or a number."""
    prescribed, shifts = linearity.beside_the_equation(problem)
    if name not in prescribed.reads - linearity.by_equation(problem).reads - shifts.reads:
        return False
    pieces = problem.forward.dirichlet
    positions = np.concatenate([one.position for one in pieces])
    hides = len(np.unique(positions)) < len(positions)  # one of them another
    return not hides and all(
        is_field_of(one.value, name) or isinstance(one.value, Constant) for one in pieces
    )


@eqx.filter_jit
def columns_at(
    problem: InverseProblem, at: TabulatedPoints, name: str, scales: Float[Array, " scale"]
) -> Float[Array, "sensor column"]:
    """How the data respond to the coordinates of one unknown, given its scales."""
    latent = problem.latents.latents[name]
    origin = jnp.zeros(latent.num_coordinates - latent.num_scales, scales.dtype)
    result = at.linear_map(problem, at.origin)

    def at_sensors(rest: Float[Array, " rest"]) -> Float[Array, " sensor"]:
        z = at.origin | {name: latent.entry(latent.value_given(scales, rest))}
        values = result(z)
        return values + problem.likelihood.mean(jnp.zeros_like(values), z)

    _, push = jax.linearize(at_sensors, origin)
    return jax.vmap(push)(jnp.eye(len(origin), dtype=origin.dtype)).T


@eqx.filter_jit
def data_mean_at(
    problem: InverseProblem, at: TabulatedPoints, coordinates: Float[Array, " coordinate"]
) -> Float[Array, " sensor"]:
    z = problem.z(coordinates)
    values = at.linear_map(problem, z)(z)
    return values + problem.likelihood.mean(jnp.zeros_like(values), z)


@eqx.filter_jit
def noise_at(read: tuple[Any, ...], coordinates: Float[Array, " _"]) -> Float[Array, " sensor"]:
    """Without the equation, whose many arrays would be looked through at each call."""
    likelihood, latents, observed = read
    return likelihood.noise_sd(observed, latents.z(coordinates))
