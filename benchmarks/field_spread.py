r"""How uncertain a field with one unknown a node is, at all nodes, without a covariance matrix.

Draws alone tell a standard deviation to a part $(2n)^{-1/2}$. Here they only tell what a subspace
leaves out: with orthonormal $Q$ that holds the directions of which the data tell, and those in
which the prior of the field varies most, the covariance of the coordinates is
$Q (Q^\top C Q) Q^\top + (I - Q Q^\top)$, the first part of which is exact and the second small
(Baston & Nakatsukasa 2022 do so for any matrix).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from riesz.errors import RieszError
from riesz.fem.default_solver import map_in_parts, split_in_parts
from riesz.posterior.family import PriorUpdate
from riesz.posterior.posterior import Posterior, check_unknown
from riesz.priors.fields import AbstractFieldLatent
from riesz.problem.problem import InverseProblem

NUM_DIRECTIONS = 60
"""In which the prior of the field varies most: in the plane they leave a few per cent of it."""

NUM_DRAWS = 64
"""Of what is left: its standard deviation is then known to a tenth, and the whole to a per cent."""

Basis = Float[Array, "coordinate rank"]


def field_sd(posterior: Posterior, name: str, *, seed: int = 0) -> Float[Array, " weight"]:
    """The sd of an unknown field's Gaussian weights, such as a log-diffusivity at the nodes.

    For posteriors by `laplace`; unknowns that are not linear in their coordinates are linearised
    at the mode.
    """
    problem, distribution = posterior.problem, posterior.distribution
    check_unknown(problem, name)
    if not isinstance(problem.latents.latents[name], AbstractFieldLatent):
        raise RieszError(f"{name!r} is no field: ask posterior.sd({name!r}).")
    if not isinstance(distribution, PriorUpdate):
        raise RieszError(
            f"this posterior by {posterior.engine} is no update of the prior, as that of "
            f"rz.Laplace().run(problem): ask rz.predict(posterior, {name!r}) for its sd by draws."
        )
    return jnp.sqrt(field_variances(problem, distribution, jr.key(seed), name))


@eqx.filter_jit
def field_variances(
    problem: InverseProblem, update: PriorUpdate, key: PRNGKeyArray, name: str
) -> Float[Array, " weight"]:
    """As many fields at once as there is room for; none of them is kept."""
    start, draw = jr.split(key)
    _, field = jax.linearize(lambda own: problem.z(own)[name].weights, update.mean)
    transposed = jax.linear_transpose(field, update.mean)
    directions = update.directions
    count = max(0, min(NUM_DIRECTIONS, update.num_coordinates - directions.shape[1]))
    random = jr.normal(start, (count, update.num_coordinates), update.dtype)
    size = update.num_coordinates
    prior = map_in_parts(lambda own: transposed(field(own))[0], random, size)
    basis, _ = jnp.linalg.qr(jnp.concatenate([directions, prior.T], axis=1))
    overlaps = basis.T @ directions
    shrunk = update.information / (1 + update.information)
    inner = jnp.eye(len(overlaps), dtype=update.dtype) - overlaps * shrunk[None] @ overlaps.T
    values, rotation = jnp.linalg.eigh(inner)
    axes = (basis @ (rotation * jnp.sqrt(jnp.maximum(values, 0.0))[None])).T
    normals = jr.normal(draw, (NUM_DRAWS, update.num_coordinates), update.dtype)
    rest = (normals - (normals @ basis) @ basis.T) / jnp.sqrt(NUM_DRAWS)

    def add(total: Float[Array, " weight"], part: Float[Array, "width coordinate"]):
        return total + jnp.sum(jax.vmap(field)(part) ** 2, axis=0), None

    shape = jax.eval_shape(field, update.mean)
    nothing = jnp.zeros(shape.shape, shape.dtype)
    total, _ = jax.lax.scan(add, nothing, split_in_parts(jnp.concatenate([axes, rest]), size))
    return total
