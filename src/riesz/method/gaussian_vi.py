r"""A normal distribution near to the posterior, by steps of natural gradient.

Where the posterior is skewed its mode is not its mean, and the curvature there not its spread: a
Laplace approximation sees one point, this one all that q covers. It starts from there.

Of all normal distributions $q = N(m, C)$ the one with the least divergence $KL(q \| p)$ from a
posterior has $E_q[\nabla(-\log p)] = 0$ and $C^{-1} = E_q[\nabla^2(-\log p)]$ (Opper & Archambeau
2009). As Gauss and Newton did, second derivatives of the state are left out: the data's part of the
curvature is then never negative where noise is normal, and scatters less over draws. So the first
of the two equations holds in the end, and the second with $J^\top J / \sigma^2$ for the data's part
of the Hessian: where the state bends within q, that is not the least divergence.

Each step sees gradients at fresh draws of q, in pairs on both sides of the mean, and curvature at a
few of them, and moves mean and precision towards what they say. Once steps are no longer than
chance makes them they are shortened, like $1/t$, so that all draws since then are averaged over.

Curvature is seen along some directions: all of them where unknowns are few, and else those that a
power iteration finds, one application a step. No sample stands for q: each draw tells of all these
directions, so that there may be fewer draws than directions.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.errors import EngineError, OutOfTimeError
from riesz.method.base import GRADIENT, AbstractMethod, Inferred, TargetDensity, Work
from riesz.method.laplace import NEGLIGIBLE, note_on_directions
from riesz.method.newton import SearchSettings, find_map, search_origin
from riesz.method.settings import Count, CountOrNone, Share
from riesz.notes import Note
from riesz.posterior.density import (
    LEAST_INFORMATION,
    AbstractDensity,
    Directions,
    Linearization,
    curvature_at,
    eigenpairs_within,
    hessian_vector_products,
    linearize_at,
    num_directions,
    orthonormal,
    pool_for,
)
from riesz.posterior.family import PriorUpdate, antithetic
from riesz.progress import format_levels, progress_bar

SEARCH = SearchSettings(tolerance=0.05)
"""The mode is where q begins: a twentieth of a standard deviation more or less is nothing."""

SEARCHING = 0.4
"""The share of the time that the search for it may take."""

LONGEST = 2.0
"""Of a step, in posterior standard deviations."""

BY_CHANCE = 1.5
"""Steps up to so many times as long as chance makes them are no way to go."""

EAGER = 0.5
"""The share of what a step sees of curvature that is taken over before averaging."""

FEWEST_AVERAGED = 4
"""Steps that are averaged over at the least: what was left to go is shared by as many."""

STAGE = "nearest"
"""Its name in checkpoints."""

Images = Float[np.ndarray, "draw direction coordinate"]


class DrawDerivatives(NamedTuple):
    """What draws of q tell, whose solves worked."""

    gradients: Float[np.ndarray, "pair coordinate"]  # of minus the log-posterior
    images: Images  # of the basis, by the data's part of the curvature
    bound: float  # of the log-evidence, from below
    num_failed: int


class FitState(NamedTuple):
    """How far q has come."""

    family: PriorUpdate
    basis: Directions  # along which curvature is seen next
    mean_variance: float  # by chance, along the worst direction, in variances of q
    width_variance: float  # the same of the precision, relatively
    num_averaged: int
    num_failed: int
    curves: tuple[dict[str, float], ...]

    def snapshot(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        own = self.family
        return {
            "arrays": (own.mean, own.directions, own.information, self.basis),
            "numbers": self[2:],
        }


def restore(stored: dict[str, Any]) -> FitState:
    mean, directions, information, basis = map(jnp.asarray, stored["arrays"])
    return FitState(PriorUpdate(mean, directions, information), basis, *stored["numbers"])


def init(
    density: AbstractDensity, at: Linearization, num_directions: int, key: PRNGKeyArray
) -> FitState:
    """From the curvature at the mode."""
    mode = at.coordinates
    values, directions = curvature_at(density, at, num_directions, key, second=gauss_newton(mode))
    family = PriorUpdate(mode, directions, jnp.maximum(values, LEAST_INFORMATION))
    return FitState(family, directions.T, 0.0, 0.0, 0, 0, ())


def gauss_newton(like: Array) -> Float[Array, ""]:
    """No second derivatives, as an array: for a plain number another program is compiled."""
    return jnp.zeros((), like.dtype)


class GaussianSteps(NamedTuple):
    """How many steps there may be, what each of them sees, and when they are enough."""

    max_steps: int
    num_pairs: int  # of draws at which gradients are seen
    num_curved: int  # of those, pairs at which curvature is seen as well
    tolerance: float  # posterior standard deviations


def fit_gaussian(
    density: AbstractDensity,
    state: FitState,
    effort: GaussianSteps,
    key: PRNGKeyArray,
    work: Work = Work(),  # noqa: B008 (immutable)
) -> FitState:
    """Steps, until chance moves no mean and no width by more than the tolerance, or there are no
    more, or no time for them.
    """
    with pool_for(density, state.family.mean) as pool, progress_bar(work.progress) as shown:
        task = shown.add_task("q", total=effort.max_steps, terms="")
        shown.advance(task, len(state.curves))
        while not has_converged(state, effort.tolerance) and len(state.curves) < effort.max_steps:
            # Fresh ones, by the number of the step alone: one that goes on draws the same.
            own = jr.fold_in(key, len(state.curves))
            normals = antithetic(own, 2 * effort.num_pairs, len(state.family.mean), jnp.float64)
            try:
                with work.deadline.enforce("in the first step of q"):
                    derivatives = derivatives_at_draws(
                        pool, density, state, normals, effort.num_curved
                    )
            except OutOfTimeError:
                if not state.curves:
                    raise
                break
            state = step(state, derivatives, effort.tolerance)
            work.checkpoint.keep(STAGE, state.snapshot())
            shown.update(task, advance=1, terms=format_levels(state.curves[-1]))
    return state


def has_converged(state: FitState, tolerance: float) -> bool:
    """Whether what is left to go has been shared, and chance alone makes little of it."""
    if state.num_averaged < FEWEST_AVERAGED:
        return False
    last = state.curves[-1]
    return max(last["mean_error"], last["sd_error"]) <= tolerance


def derivatives_at_draws(
    pool: ThreadPoolExecutor,
    density: AbstractDensity,
    state: FitState,
    normals: Float[Array, "draw coordinate"],
    num_curved: int,
) -> DrawDerivatives:
    """Slopes at all draws, and curvature at the first pairs."""
    family, basis, half = state.family, state.basis, len(normals) // 2
    draws = family.transform(normals)

    def one(number: int):
        at = linearize_at(density, draws[number])
        images = None
        if number % half < num_curved:
            images = np.asarray(hessian_vector_products(density, at, basis, gauss_newton(basis)))
        return float(at.cost), np.asarray(at.gradient), images

    results = list(pool.map(one, range(len(draws))))
    costs = np.array([cost for cost, _, _ in results])
    gradients = np.stack([gradient for _, gradient, _ in results])
    works = np.isfinite(costs) & np.isfinite(gradients).all(axis=1)
    works &= [images is None or bool(np.isfinite(images).all()) for _, _, images in results]
    both = works[:half] & works[half:]
    if both.sum() <= half // 2 or not both[:num_curved].any():
        raise EngineError(
            f"at {np.sum(~works)} of {len(works)} draws of q the equation has no solution or the "
            "data no likelihood: the posterior cannot be told from so few. Look for priors that "
            "allow impossible coefficients, or use mcmc."
        )
    images = [own for i, (_, _, own) in enumerate(results) if own is not None and both[i % half]]
    # With the log-density of q at the same draws: that of the posterior varies much like it.
    squares = 0.5 * np.sum(np.asarray(normals) ** 2, axis=1)
    return DrawDerivatives(
        gradients=(gradients[:half][both] + gradients[half:][both]) / 2,
        images=np.stack(images),
        bound=float((squares - costs)[np.tile(both, 2)].mean() + family.log_volume()),
        num_failed=int(np.sum(~works)),
    )


def step(state: FitState, derivatives: DrawDerivatives, tolerance: float) -> FitState:
    """One step of mean and precision, long before it is all chance and ever shorter then."""
    family, basis = state.family, state.basis
    # By the symmetric root of the covariance: in standard deviations of q.
    whitened_gradients = np.asarray(family.deviations(jnp.asarray(derivatives.gradients)))
    mean_gradient = whitened_gradients.mean(axis=0)
    length = float(np.linalg.norm(mean_gradient))
    by_chance = float(np.sqrt(variance_of_mean(whitened_gradients).sum()))
    averages = state.num_averaged > 0 or length <= max(tolerance, BY_CHANCE * by_chance)
    number = state.num_averaged + 1 if averages else 0
    share = 1 / (number + 1) if averages else EAGER
    along = np.sum(np.asarray(basis) * derivatives.images, axis=2)
    widths = along / np.maximum(1 + along.mean(axis=0), 1 + LEAST_INFORMATION)
    width_variance = average_variance(state.width_variance, variance_of_mean(widths).max(), share)
    updated, next_basis = with_curvature(family, basis, derivatives.images.mean(axis=0), share)
    # A whole step is Newton's; while averaging it has the share of its draws among all.
    part = (share if averages else 1.0) * LONGEST / max(length, LONGEST)
    mean = family.mean - part * family.deviations(jnp.asarray(mean_gradient)[None])[0]
    # Along directions, each of which has a small part in each of many coordinates.
    worst = variance_of_mean(whitened_gradients @ np.asarray(basis).T).max()
    mean_variance = average_variance(state.mean_variance, worst, part)
    row = {
        "bound": derivatives.bound,
        "step": float(length),
        "mean_error": float(np.sqrt(mean_variance)),
        "sd_error": float(np.sqrt(width_variance)) / 2,
    }
    return FitState(
        PriorUpdate(mean, updated.directions, updated.information),
        next_basis,
        *(mean_variance, width_variance),
        number,
        state.num_failed + derivatives.num_failed,
        (*state.curves, row),
    )


def variance_of_mean(rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " column"]:
    if len(rows) < 2:
        return np.full(rows.shape[1], np.inf)
    return rows.var(axis=0, ddof=1) / len(rows)


def average_variance(old: float, new: float, share: float) -> float:
    """The variance of a running average that takes such a share of what is new."""
    return float((1 - share) ** 2 * old + share**2 * new)


def with_curvature(
    family: PriorUpdate,
    basis: Directions,
    images: Float[np.ndarray, "direction coordinate"],
    share: float,
) -> tuple[PriorUpdate, Directions]:
    """The precision moved towards what was seen of it, and where to look next.

    What was known applies to the basis exactly: it has few directions.
    """
    known = (basis @ family.directions * family.information[None]) @ family.directions.T
    both = (1 - share) * known + share * jnp.asarray(images)
    values, directions = eigenpairs_within(basis, both, len(basis))
    rotated = (basis @ directions).T @ both  # images of the new directions
    information = jnp.maximum(values, LEAST_INFORMATION)
    return PriorUpdate(family.mean, directions, information), orthonormal(rotated)


class GaussianVI(AbstractMethod):
    """A normal distribution near to the posterior: means and spread by all that it covers.

    Its mean is where the divergence from the posterior is least, given its spread: gradients of the
    log-posterior vanish on average. Its precision is the average curvature over it, as Gauss and
    Newton have it, without second derivatives of the state: not quite that of least divergence.
    It begins at the mode that a search from `start` finds. Each step sees gradients at `num_draws`
    fresh draws and curvature at `num_curved` of them, in `num_modes` directions, by default all
    where unknowns are few. It ends where chance moves no mean and no standard deviation of q by
    more than `tolerance` posterior standard deviations.
    """

    name: ClassVar[str] = "gaussian-vi"
    is_normal: ClassVar[bool] = True

    max_steps: Count = 60
    num_draws: Count = 128
    num_curved: Count = 8
    num_modes: CountOrNone = None
    tolerance: Share = 0.05

    @property
    def steps(self) -> GaussianSteps:
        """Draws are in pairs on both sides of the mean, whose scatter says what chance does."""
        pairs, curved = max(2, -(-self.num_draws // 2)), -(-self.num_curved // 2)
        return GaussianSteps(self.max_steps, pairs, curved, self.tolerance)

    def cost(self, value: float, size: int, num_data: int) -> float:
        """Twenty steps after the search."""
        actions = self.num_curved * 2 * self.num_directions(size, num_data)
        search = GRADIENT * 20 * (1 + size / 10)
        return value * (search + 20 * (GRADIENT * self.num_draws + actions))

    def num_directions(self, size: int, num_data: int) -> int:
        """How many are looked at."""
        if self.num_modes is None:
            return num_directions(size, num_data)
        return min(self.num_modes, size)

    def infer(self, target: TargetDensity, work: Work) -> Inferred:
        density = target.density
        searching, own = jr.split(jr.key(work.seed))
        stored = work.checkpoint.restore(STAGE)
        begin = self.first(target, searching, work) if stored is None else restore(stored)
        result = fit_gaussian(density, begin, self.steps, own, work)
        return self.with_notes(result)

    def first(self, target: TargetDensity, key: PRNGKeyArray, work: Work) -> FitState:
        """At the mode."""
        density = target.density
        origin = search_origin(target, self.start, work)
        sooner = work._replace(progress=False, deadline=work.deadline.sooner(SEARCHING))
        mode = find_map(density, SEARCH, origin, sooner)
        count = self.num_directions(target.size, density.num_data)
        return init(density, mode.end, count, key)

    def with_notes(self, state: FitState) -> Inferred:
        """With its curves, and notes of what a reader must know."""
        family, last = state.family, state.curves[-1]
        informed = np.abs(np.asarray(family.information)) > NEGLIGIBLE
        narrowed = PriorUpdate(
            family.mean, family.directions[:, informed], family.information[informed]
        )
        curves = {name: jnp.asarray([row[name] for row in state.curves]) for name in last}
        notes = note_on_directions(family.information, len(family.mean))
        if not has_converged(state, self.tolerance):
            steps, errors = len(state.curves), ("mean_error", "sd_error")
            sizes = {name: last[name] for name in (errors if state.num_averaged else ("step",))}
            cut = {"steps": steps, "is_cut": steps < self.max_steps}
            notes = (*notes, Note("variational_unconverged", **cut, **sizes))
        if state.num_failed:
            every = len(state.curves) * 2 * self.steps.num_pairs
            lost = state.num_failed
            notes = (*notes, Note("variational_no_solution", lost=lost, total=every))
        return Inferred(narrowed, curves | {"eigenvalues": family.information}, notes)
