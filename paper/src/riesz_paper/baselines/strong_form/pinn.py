r"""A physics-informed network: the strong form at random points, and a penalty on the boundary.

The point-wise regulariser of Raissi et al. (2019) and Sirignano & Spiliopoulos (2018) as the paper
writes it (eq. 15): the mean of $(L[z]\mu - f)^2$ over points inside plus that of $(\mu - g)^2$ over
points of the boundary. Network, optimiser and variational distribution are those of the weak form;
only the measure of how far the surrogate is from solving the equation differs, and nothing vanishes
on the boundary by construction.
"""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.density.surrogate.start import initial_surrogate
from riesz.errors import RieszError
from riesz.fem.assembly import dirichlet_values
from riesz.fem.elements.domain import Domain
from riesz.fem.kernel import Physics, resolve_terms, sum_of_terms
from riesz.fem.problem import BoundaryValueProblem
from riesz.fem.terms.pointwise import Point, State
from riesz.penalty.penalty import AbstractPenalty
from riesz.penalty.rows import Place, StateFunction, full_flux, value_and_slopes, values_at_nodes
from riesz.posterior.posterior import Posterior
from riesz.problem.problem import InverseProblem
from riesz.surrogate.surrogate import BoundaryValues, SteadySurrogate, nodal_functions
from riesz_paper.baselines.by_gradients import GradientSettings, emulate_by_gradients


class PointwisePenalty(AbstractPenalty):
    """The mean squared residual of the strong form, and that of the boundary values."""

    problem: BoundaryValueProblem
    cumulative: Float[Array, " cell"]  # the share of the domain up to each cell
    num_inside: int = eqx.field(static=True)
    num_boundary: int = eqx.field(static=True)
    boundary_weight: float = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, u: StateFunction, zs: PyTree = None) -> Float[Array, ""]:
        inside_key, boundary_key = jr.split(key)
        total = jnp.mean(self.inside(inside_key, u, zs) ** 2)
        return total + self.boundary_weight * jnp.mean(self.on_boundary(boundary_key, u, zs) ** 2)

    def nodal(
        self, key: PRNGKeyArray, states: Float[Array, "sample node"], zs: PyTree = None
    ) -> Float[Array, ""]:
        raise RieszError(
            "the strong form needs second derivatives, which nodal values do not have: give a "
            "function u(x, z), or use a weak-form penalty."
        )

    def inside(
        self, key: PRNGKeyArray, u: StateFunction, zs: PyTree
    ) -> Float[Array, "point sample"]:
        """Residuals of the strong form at places drawn uniformly from the domain."""
        cell_key, place_key = jr.split(key)
        dtype, dim = self.problem.dtype, self.problem.space.mesh.dim
        heights = jr.uniform(cell_key, (self.num_inside,), dtype)
        cells = jnp.searchsorted(self.cumulative, heights).astype(jnp.int32)
        shares = jr.exponential(place_key, (self.num_inside, dim + 1), dtype)
        barycentric = shares / jnp.sum(shares, axis=1, keepdims=True)
        drawn = self.problem.cells.domain.take(cells)

        def residuals(z):
            return strong_residuals(self.problem, drawn, barycentric, u, z)

        return over_samples(residuals, zs)

    def on_boundary(
        self, key: PRNGKeyArray, u: StateFunction, zs: PyTree
    ) -> Float[Array, "point sample"]:
        """Errors of the prescribed values, at mesh nodes drawn from those that have one."""
        chosen = jr.randint(key, (self.num_boundary,), 0, len(self.problem.fixed))
        nodes = self.problem.fixed[chosen]
        x = self.problem.cells.domain.nodes[:, nodes].T

        def errors(z):
            wanted = dirichlet_values(self.problem, z)[chosen]
            return values_at_nodes(u, nodes, x, z) - wanted

        return over_samples(errors, zs)


def over_samples(
    of_sample: Callable[[PyTree], Float[Array, " point"]], zs: PyTree
) -> Float[Array, "point sample"]:
    return of_sample(None)[:, None] if zs is None else jax.vmap(of_sample, out_axes=1)(zs)


def strong_residuals(
    problem: BoundaryValueProblem,
    cells: Domain,
    barycentric: Float[Array, "point corner"],
    u: StateFunction,
    z: PyTree,
) -> Float[Array, " point"]:
    r"""$G - \nabla\cdot F$ at one place of each given cell, for the form $G v + F\cdot\nabla v$."""
    physics = resolve_terms(problem.cells.terms, problem.space.element, z)
    gathered = tuple(
        {name: c.gather(cells) for name, c in term.coefficients.items()} for term in physics.terms
    )
    vertices = cells.nodes[:, cells.corners]  # dim corner point

    def at(vertices, slopes, corners, weights, local):
        x = vertices @ weights
        return residual_at(physics, local, u, Place(x, corners, weights), slopes, z)

    along = jax.vmap(at, in_axes=(-1, -1, -1, 0, -1))
    return along(vertices, cells.inverse_jacobian, cells.corners, barycentric, gathered)


def residual_at(
    physics: Physics,
    gathered: PyTree,
    u: StateFunction,
    place: Place,
    slopes: Float[Array, "dim dim"],
    z: PyTree,
) -> Float[Array, ""]:
    """Density minus divergence of the flux; coefficients vary inside the cell as they do there."""

    def form(x):
        value, grad = value_and_slopes(u, Place(x, place.corners, place.barycentric), z)
        others = place.barycentric[1:] + slopes @ (x - place.x)
        barycentric = (1 - jnp.sum(others), *others)
        point = Point(x, barycentric, State(value, tuple(grad)), z)
        found = sum_of_terms(physics, gathered, None, point)
        zero = jnp.zeros((), x.dtype)
        flux = full_flux(found, len(x)) or (zero,) * len(x)
        return jnp.stack(flux), zero if found.density is None else zero + found.density

    change, density = jax.jacfwd(form, has_aux=True)(place.x)
    return density - jnp.trace(change)


def pointwise_penalty(
    problem: BoundaryValueProblem,
    *,
    num_inside: int = 256,
    num_boundary: int = 64,
    boundary_weight: float = 1.0,
) -> PointwisePenalty:
    """The regulariser for a problem whose whole boundary has prescribed values.

    In the paper both terms weigh the same, whatever the units.
    """
    if problem.facets or problem.point_sources or not len(problem.fixed):
        raise RieszError(
            "the point-wise penalty knows Dirichlet conditions only: leave flux conditions and "
            "point sources out, or use a weak-form penalty."
        )
    measure = np.asarray(problem.cells.domain.measure, dtype=float)
    shares = jnp.asarray(np.cumsum(measure) / measure.sum(), problem.dtype)
    return PointwisePenalty(problem, shares, num_inside, num_boundary, boundary_weight)


def pinn(
    problem: InverseProblem,
    *,
    seed: int = 0,
    settings: GradientSettings | None = None,
    num_inside: int = 256,
    num_boundary: int = 64,
    boundary_weight: float = 1.0,
    progress: bool = False,
) -> Posterior:
    """Infer the unknowns with a surrogate that is trained on the strong form."""
    settings = GradientSettings() if settings is None else settings
    penalty = pointwise_penalty(
        problem.forward,
        num_inside=num_inside,
        num_boundary=num_boundary,
        boundary_weight=boundary_weight,
    )
    key = jr.fold_in(jr.key(seed), 1)
    start = initial_surrogate(problem, key, width=settings.width, features=settings.features)
    posterior = emulate_by_gradients(
        problem,
        penalty,
        seed=seed,
        settings=settings,
        surrogate=free_on_boundary(problem.forward, start),
        progress=progress,
    )
    return dataclasses.replace(posterior, engine="pinn")


def free_on_boundary(problem: BoundaryValueProblem, surrogate: SteadySurrogate) -> SteadySurrogate:
    """The surrogate without boundary values by construction: a factor of one, nothing lifted."""
    mesh = problem.space.mesh
    columns = np.eye(1, 2).repeat(mesh.num_nodes, axis=0)
    nothing = BoundaryValues(nodal_functions(mesh, columns, problem.dtype), jnp.zeros(0, jnp.int32))
    return dataclasses.replace(surrogate, boundary=nothing)
