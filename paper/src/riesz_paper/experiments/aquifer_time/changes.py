r"""Changes of head that recharge makes: the response to one year of it, at all later years.

Heads are a steady part and a change, $s\,\partial_t v = \nabla\cdot(T \nabla v) + q(x, t)$; the
equation is linear, so that both add up. Recharge $q$ of a year is independent of other years': one
number for the whole plain, and a field. Steps are equal and nothing else changes in time, so that
the response to one year's recharge is that to any other, shifted: a march for each pattern of
recharge is all that is needed.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.fem.elements.space import P1, Operator, point_operator
from riesz.fem.linear.linear_solve import SparseLU
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.weakform import diffusion, storage
from riesz.fem.time.problem import TransientProblem, transient_problem
from riesz.fem.time.scheme import EULER
from riesz.fem.time.time_stepping import integrate_in_time
from riesz.mesh.mesh import Mesh
from riesz.priors.gaussian_process import GP
from riesz.priors.kernels import Matern52
from riesz.priors.representatives import farthest_points

DIFFUSIVITIES = 5.0 * 3.0 ** np.arange(6)
"""Transmissivity over storage, in square km a year, for which responses are tabulated."""

FIRST_RECHARGE = 1940
"""The year from which on recharge changes heads: ten years before the first reading."""

NUM_TERMS = 60
"""Places of wells, far from each other, through which the field of recharge is made."""


class At(eqx.Module):
    """Wells in years."""

    well: Int[Array, " row"]
    year: Int[Array, " row"]


@dataclass(frozen=True, eq=False)
class Responses:
    """Of wells to a unit of recharge so many years ago."""

    whole: Float[np.ndarray, "diffusivity 1 lag well"]  # to recharge of the whole plain
    field: Float[np.ndarray, "diffusivity term lag well"]  # to the patterns of a field

    def covariances(
        self, first: At, second: At
    ) -> Float[np.ndarray, "kind_and_diffusivity first second"]:
        """Of changes, for recharge of unit sd: of the whole plain, then of the field."""
        return np.stack(
            [
                columns(one, first) @ columns(one, second).T
                for kind in (self.whole, self.field)
                for one in kind
            ]
        )


def columns(
    responses: Float[np.ndarray, "term lag well"], at: At
) -> Float[np.ndarray, "row term_and_year"]:
    """How heads respond to recharge of each pattern and year, which does not act on the past."""
    lag = np.asarray(at.year)[:, None] - np.arange(FIRST_RECHARGE, int(at.year.max()) + 1)
    well = np.broadcast_to(np.asarray(at.well)[:, None], lag.shape)
    found = np.where(lag >= 0, responses[:, np.maximum(lag, 0), well], 0.0)
    room = responses.shape[1] - lag.shape[1]  # so that columns of all rows are the same
    padded = np.pad(found, ((0, 0), (0, 0), (0, room)))
    return padded.transpose(1, 0, 2).reshape(len(lag), -1)


def responses_of(
    mesh: Mesh,
    places: Float[np.ndarray, "well 2"],
    *,
    length: float,
    is_held: bool,
    end: int,
    num_terms: int = NUM_TERMS,
    diffusivities: Float[np.ndarray, " diffusivity"] = DIFFUSIVITIES,
) -> Responses:
    """By marches from each pattern, with a boundary that is closed, or held at no change.

    `length` is that of the field of recharge, in km.
    """
    space = P1(mesh)
    problem = transient_problem(
        space,
        storage(1.0) + diffusion("diffusivity"),
        {"outer": 0.0} if is_held else None,
        times=np.arange(float(end - FIRST_RECHARGE)),
        initial="pattern",
        scheme=EULER,
    )
    distinct = np.unique(places, axis=0)
    through = distinct[farthest_points(distinct, min(num_terms, len(distinct)))]
    prior = GP(Matern52(length), through, at_nodes=True).on(mesh)
    field = jax.vmap(prior.value)(jnp.eye(prior.num_coordinates))
    patterns = jnp.concatenate([jnp.ones((1, mesh.num_nodes)), field])
    wells = point_operator(space, places, dtype=problem.dtype)
    found = np.stack(
        [np.asarray(marched(problem, wells, patterns, jnp.asarray(one))) for one in diffusivities]
    )
    return Responses(found[:, :1], found[:, 1:])


@eqx.filter_jit
def marched(
    problem: TransientProblem,
    wells: Operator,
    patterns: Float[Array, "term node"],
    diffusivity: Float[Array, ""],
) -> Float[Array, "term lag well"]:
    def one(pattern: Float[Array, " node"]) -> Float[Array, "lag well"]:
        z = {"diffusivity": diffusivity, "pattern": nodal(pattern)}
        return integrate_in_time(problem, z, SparseLU(), lambda state, z: wells @ state).recorded

    return jax.vmap(one)(patterns)
