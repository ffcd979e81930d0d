"""All that a report needs of the posterior, from one pass over its draws."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from riesz.diagnose.summary import AtSensors, at_sensors
from riesz.fem.flux import budget
from riesz.fem.places import Places, fluxes_at, places, states_at
from riesz.fem.terms.coefficient import parts_of
from riesz.latent.field import FieldCoefficient
from riesz.observe.effects import WithEffects
from riesz.posterior.posterior import Posterior, is_field, regions_of
from riesz.prediction.predict import NUM_DRAWS, quantity_draws
from riesz.prediction.quantity import Grid, UnknownAt
from riesz.problem.problem import InverseProblem

NUM_PRIOR_DRAWS = 2000
MOST_NODES = 300
"""At which the widths of a field before and after the data are compared."""

GAINS, OUTFLOWS = "gains", "outflows"


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws, the first axis of each array; priors of the unknowns beside their posteriors."""

    state: Float[np.ndarray, "draw pixel"]
    fields: dict[str, Float[np.ndarray, "draw pixel"]]
    sensors: AtSensors
    flux: Float[np.ndarray, "draw arrow 2"]
    unknowns: dict[str, Float[np.ndarray, "draw component"]]
    before: dict[str, Float[np.ndarray, "prior_draw component"]]
    gains: dict[str, Float[np.ndarray, " draw"]]
    outflows: dict[str, Float[np.ndarray, " draw"]]
    value: Float[np.ndarray, "draw pixel"] | None = None  # where neighbours share more than u


class ReportDraw(eqx.Module):
    """What is told of one draw."""

    where: Places
    points: Float[Array, "pixel 2"]
    arrows: Places | None  # where there is a flux
    nodes: Int[Array, " node"]
    fields: tuple[str, ...] = eqx.field(static=True)

    def __call__(
        self, key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " node"], z: PyTree
    ) -> dict[str, Any]:
        lines = budget(problem.forward, state, z)
        fields = {
            name: UnknownAt(name, self.where)(problem, state, z).astype(jnp.float32)
            for name in self.fields
        }
        states = states_at(problem.forward, self.where, state, z)
        values = {}
        if isinstance(problem.likelihood, WithEffects) and problem.likelihood.local is not None:
            own = jr.fold_in(key, 1)
            shifted = problem.likelihood.elsewhere(own, states, z, self.points)
            values = {"value": shifted.astype(jnp.float32)}
        return values | {
            # Half the bytes: they are quantised in the end.
            "state": states.astype(jnp.float32),
            "fields": fields,
            "sensors": at_sensors(key, problem, state, z),
            "flux": jnp.zeros((0, 2), problem.forward.dtype)
            if self.arrows is None
            else fluxes_at(problem.forward, self.arrows, state, z),
            "unknowns": unknowns_of(problem, z, self.nodes),
            GAINS: lines.gains,
            OUTFLOWS: lines.outflows,
        }


def unknowns_of(
    problem: InverseProblem, z: PyTree, nodes: Int[Array, " node"]
) -> dict[str, Float[Array, " component"]]:
    """Numbers, also of regions, as they are; fields at some nodes."""
    state = jnp.zeros(problem.forward.space.num_dofs, problem.forward.dtype)  # none asks for it

    def shown(name: str) -> Float[Array, " component"]:
        if is_field(problem, name) and not regions_of(problem, name):
            return UnknownAt(name)(problem, state, z)[nodes]
        return jnp.ravel(z[name])

    return {name: shown(name) for name in problem.latents.names}


def mapped_fields(problem: InverseProblem) -> tuple[str, ...]:
    """Unknown fields that the equation reads inside the domain, not only on its boundary."""
    names = {
        part.name
        for term in problem.forward.form.terms
        if term.on is None
        for coefficient in term.coefficients.values()
        for part in parts_of(coefficient)
        if isinstance(part, FieldCoefficient)
    }
    return tuple(name for name in problem.latents.names if name in names)


def drawn(
    posterior: Posterior,
    pixels: Grid,
    arrows: Grid | None,
    *,
    num_draws: int = NUM_DRAWS,
    seed: int = 0,
) -> Drawn:
    """Draw from the posterior, and from the prior of its unknowns."""
    problem = posterior.problem
    num_nodes = problem.forward.space.mesh.num_nodes
    step = -(-num_nodes // MOST_NODES)
    nodes = jnp.arange(0, num_nodes, step)
    sampler = ReportDraw(
        where=places(problem.forward, pixels.points),
        points=jnp.asarray(pixels.points),
        arrows=None if arrows is None else places(problem.forward, arrows.points),
        nodes=nodes,
        fields=mapped_fields(problem),
    )
    found = quantity_draws(posterior, sampler, num_draws=num_draws, seed=seed)
    return Drawn(**found, before=prior_unknowns(problem, nodes, seed))


def prior_unknowns(
    problem: InverseProblem, nodes: Int[Array, " node"], seed: int
) -> dict[str, Float[np.ndarray, "prior_draw component"]]:
    shape = (NUM_PRIOR_DRAWS, problem.num_coordinates)
    coordinates = jr.normal(jr.key(seed), shape, problem.forward.dtype)

    @eqx.filter_jit
    def of_all(problem: InverseProblem, coordinates: Array):
        return jax.lax.map(
            lambda one: unknowns_of(problem, problem.z(one), nodes), coordinates, batch_size=100
        )

    return jax.tree.map(np.asarray, of_all(problem, coordinates))
