r"""The engine `conditional`: sources and boundary values of a linear equation, integrated out.

Given the other unknowns $h$ (scales of fields, a diffusivity, a velocity, the noise) everything is
Gaussian: $p(h \mid y) \propto p(h)\, N(y;\, b(h),\, S(h))$ is a density over few unknowns, and the
rest follows exactly. $h$ is taken at its most probable value, from the Gaussian that the curvature
there makes, or by NUTS.
"""

import warnings
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from riesz.engines.checkpoint import NO_CHECKPOINT, AbstractCheckpoint
from riesz.engines.conditional.linear import Others, linear_system
from riesz.engines.nuts.chains import (
    AbstractDensity,
    NutsSettings,
    history_of,
    sampled,
    warnings_of,
)
from riesz.engines.optimise import minimised
from riesz.engines.training import bar, spoken
from riesz.errors import RieszError
from riesz.fem.linear.linear_solve import AbstractLinearSolver, SparseLU
from riesz.fem.solve import require_float64
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior
from riesz.posterior.states import ExactStates
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.problem import InverseProblem

STEP = 1e-3
"""Of differences of slopes, in prior standard deviations: third derivatives of a solve would be
exact too, but take minutes to compile."""

FLAT = 0.25
"""Curvatures are taken for no smaller: the prior alone has one, and what is flat there or bends
upwards would put draws beyond anything the prior allows."""

STEEP = 0.05
"""A slope of the log-density, by prior standard deviations, that is no longer a maximum."""

Over = Literal["mode", "laplace", "nuts"]


@dataclass(frozen=True)
class ConditionalSettings:
    """How the unknowns that cannot be integrated out are treated, and how many draws are kept.

    As many draws belong to each value of those unknowns, so that there may be a few more than
    asked for. The last four are those of `nuts`.
    """

    over: Over = "laplace"
    num_draws: int = 400
    num_others: int = 50  # values of those unknowns that the draws share, with `laplace`
    max_steps: int = 200
    num_warmup: int = 300
    num_samples: int = 300
    num_chains: int = 2
    target_accept: float = 0.8

    def __post_init__(self):
        if self.over not in get_args(Over):
            raise RieszError(f"over is {self.over!r}: it is one of {', '.join(get_args(Over))}.")
        for name in ("num_draws", "num_others", "num_samples", "num_chains"):
            if getattr(self, name) < 1:
                raise RieszError(f"{name} is {getattr(self, name)}: give at least one.")
        if not 0 < self.target_accept < 1:
            raise RieszError(f"target_accept is {self.target_accept}: it must lie between 0 and 1.")


class MarginalDensity(AbstractDensity):
    """The log-density of the other unknowns, the linear ones being integrated out."""

    problem: InverseProblem
    parts: Parts
    solver: AbstractLinearSolver

    def __call__(self, coordinates: Others) -> Float[Array, ""]:
        system = linear_system(self.problem, self.parts, coordinates, self.solver)
        return self.problem.latents.log_prior(coordinates) + system.log_likelihood()

    def explain(self, coordinates: Others) -> None:
        linear = jnp.zeros(len(self.parts.linear))
        self.problem.state(self.parts.together(linear, coordinates))
        raise RieszError(
            "the density of the unknowns that are not integrated out is not finite where the "
            "search starts: look for noise of zero, or priors that allow impossible coefficients."
        )


def conditional(
    problem: InverseProblem,
    *,
    seed: int = 0,
    settings: ConditionalSettings | None = None,
    start: Others | None = None,
    linear_solver: AbstractLinearSolver | None = None,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> Posterior:
    """The posterior of a problem whose equation is linear and whose noise is normal.

    `start` is where the search over the unknowns that cannot be integrated out begins, in standard
    normal coordinates. `conditional_moments` gives means and variances of the state without the
    scatter of draws.
    """
    settings = ConditionalSettings() if settings is None else settings
    solver = SparseLU() if linear_solver is None else linear_solver
    search_key, draw_key = jr.split(jr.key(seed))
    require_float64(problem.forward)
    parts = linear_parts(problem)
    found = other_unknowns(
        *(problem, parts, settings, search_key, start, solver),
        progress=progress,
        checkpoint=checkpoint,
    )
    chains, count, _ = found.values.shape
    is_sampled = settings.over == "nuts" and len(parts.others) > 0
    each = 1 if is_sampled else -(-settings.num_draws // count)
    keys = jr.split(draw_key, (chains * count, each))
    flat = drawn(problem, parts, found.values.reshape(chains * count, -1), keys, solver)
    draws = EmpiricalDraws(flat.reshape(chains, count * each, parts.num_coordinates))
    for note in found.notes:
        warnings.warn(f"conditional: {note}", stacklevel=2)
    return Posterior(
        problem, draws, ExactStates(solver), found.history, "conditional", seed, found.notes
    )


class FoundOthers(NamedTuple):
    """Values of the unknowns that are not integrated out, and how they were found."""

    values: Float[Array, "chain value other"]
    history: dict[str, Array]
    notes: tuple[str, ...]


def other_unknowns(
    problem: InverseProblem,
    parts: Parts,
    settings: ConditionalSettings,
    key: PRNGKeyArray,
    start: Others | None,
    solver: AbstractLinearSolver,
    *,
    progress: bool = False,
    checkpoint: AbstractCheckpoint = NO_CHECKPOINT,
) -> FoundOthers:
    """Values of the unknowns that are not integrated out, given the data."""
    density = MarginalDensity(problem, parts, solver)
    origin = jnp.zeros(len(parts.others)) if start is None else jnp.asarray(start)
    if origin.shape != parts.others.shape:
        raise RieszError(
            f"start has shape {origin.shape}, but {len(parts.others)} unknowns are not integrated "
            "out."
        )
    mode, history, notes = most_probable(density, origin, settings, progress=progress)
    if settings.over == "nuts" and len(origin):
        values, sampling = by_nuts(density, mode, settings, key, checkpoint, progress=progress)
        notes += warnings_of(sampling, names_of(problem, parts))
        return FoundOthers(values, history | sampling, notes)
    if settings.over == "mode" or not len(origin):
        return FoundOthers(mode[None, None], history, notes)
    spread = spread_about(density, mode)
    count = min(settings.num_others, settings.num_draws)
    return FoundOthers(around(spread, mode, count, key)[None], history, (*notes, *spread.notes))


def most_probable(
    density: MarginalDensity, origin: Others, settings: ConditionalSettings, *, progress: bool
) -> tuple[Others, dict[str, Array], tuple[str, ...]]:
    """The mode of the other unknowns, how the search went, and what to warn of."""
    value = density(origin) if not len(origin) else value_and_slope(origin, density)[0]
    if not bool(jnp.isfinite(value)):
        density.explain(origin)
    if not len(origin):
        return origin, {"log_density": value[None]}, ()
    with bar(not progress) as shown:
        task = shown.add_task("marginal likelihood", total=None, terms="")
        costs = []

        def cost(others: Others):
            found = value_and_slope(others, density)
            costs.append(float(found[0]))
            shown.update(task, advance=1, terms=spoken({"cost": costs[-1]}))
            return found

        mode = minimised(origin, cost, max_steps=settings.max_steps)
    _, slope = value_and_slope(mode, density)
    steepness = float(jnp.linalg.norm(slope))
    if not np.isfinite(steepness):
        raise RieszError(
            "the log-density of the unknowns that are not integrated out has no slope where the "
            "search ended: look for priors at the edge of what the equation allows."
        )
    notes = ()
    if steepness > STEEP:
        notes = (
            f"the search for the most probable values ended where the slope still was "
            f"{steepness:.2g}: allow more with max_steps=..., or start elsewhere.",
        )
    return mode, {"log_density": -jnp.asarray(costs), "mode": mode}, notes


@eqx.filter_jit
def value_and_slope(
    others: Others, density: AbstractDensity
) -> tuple[Float[Array, ""], Float[Array, " other"]]:
    """Of the negative log-density; infinite where there is none, so that searches turn back."""
    value, slope = jax.value_and_grad(lambda h: -density(h))(others)
    exists = jnp.isfinite(value)
    return jnp.where(exists, value, jnp.inf), jnp.where(exists, slope, 0.0)


def curvature(density: AbstractDensity, mode: Others) -> Float[np.ndarray, "other other"]:
    """Of the negative log-density, by differences of slopes."""
    _, here = value_and_slope(mode, density)
    ahead = [value_and_slope(mode + STEP * axis, density)[1] for axis in np.eye(len(mode))]
    matrix = (np.stack([np.asarray(slope) for slope in ahead]) - np.asarray(here)) / STEP
    return (matrix + matrix.T) / 2


class Spread(NamedTuple):
    """The Gaussian about a mode, by its axes, and whether some of them had to be shortened."""

    axes: Float[np.ndarray, "other other"]  # in columns
    lengths: Float[np.ndarray, " other"]  # standard deviations along them
    notes: tuple[str, ...]


def spread_about(density: AbstractDensity, mode: Others) -> Spread:
    values, axes = np.linalg.eigh(curvature(density, mode))
    flat = int(np.sum(values < FLAT))
    notes = ()
    if flat:
        notes = (
            f"around their most probable values the log-density of the unknowns that are not "
            f"integrated out is flat or bends upwards in {flat} of {len(mode)} directions: their "
            "spread there is that of the prior at most, doubled. Use over='nuts'.",
        )
    return Spread(axes, 1 / np.sqrt(np.maximum(values, FLAT)), notes)


def around(
    spread: Spread, mode: Others, count: int, key: PRNGKeyArray
) -> Float[Array, "draw other"]:
    """Draws from the Gaussian about the mode."""
    normals = jr.normal(key, (count, len(mode)), mode.dtype)
    return mode[None, :] + normals @ jnp.asarray((spread.axes * spread.lengths).T)


def by_nuts(
    density: MarginalDensity,
    mode: Others,
    settings: ConditionalSettings,
    key: PRNGKeyArray,
    checkpoint: AbstractCheckpoint,
    *,
    progress: bool,
) -> tuple[Float[Array, "chain draw other"], dict[str, Array]]:
    """Chains that start at the mode, with the inverse curvature there for a mass."""
    spread = spread_about(density, mode)
    inverse_mass = jnp.asarray((spread.axes * spread.lengths**2) @ spread.axes.T)
    own = NutsSettings(settings.num_warmup, settings.target_accept, True, 10, adapt_mass=False)
    total = settings.num_warmup + settings.num_samples
    with bar(not progress) as shown:
        tasks = [
            shown.add_task(f"chain {number + 1}", total=total, terms="")
            for number in range(settings.num_chains)
        ]
        chains = [
            sampled(
                *(density, own, one, mode, inverse_mass, total),
                lambda count, task=task: shown.advance(task, count),
                checkpoint=checkpoint,
                stage=f"chain {number}",
            )
            for number, (task, one) in enumerate(
                zip(tasks, jr.split(key, settings.num_chains), strict=True)
            )
        ]
    every = jax.tree.map(lambda *parts: jnp.stack(parts), *chains)
    kept = jax.tree.map(lambda leaf: leaf[:, settings.num_warmup :], every)
    return kept.coordinates, history_of(kept)


@eqx.filter_jit
def drawn(
    problem: InverseProblem,
    parts: Parts,
    others: Float[Array, "value other"],
    keys: Key[Array, "value each"],
    solver: AbstractLinearSolver,
) -> Float[Array, "value each coordinate"]:
    """All coordinates: the linear ones are drawn, some for each value of the others."""

    def at_one(given):
        own, own_keys = given
        system = linear_system(problem, parts, own, solver)
        return jax.vmap(lambda key: parts.together(system.draw(key), own))(own_keys)

    return jax.lax.map(at_one, (others, keys))


def names_of(problem: InverseProblem, parts: Parts) -> tuple[str, ...]:
    names = problem.latents.coordinate_names()
    return tuple(names[i] for i in np.asarray(parts.others))
