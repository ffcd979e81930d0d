"""What engines that train a surrogate start from."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.infer.problem import InverseProblem
from riesz.penalty.state import values_at_nodes
from riesz.surrogate.affine import affine_coordinates
from riesz.surrogate.boundary import boundary_values
from riesz.surrogate.networks import trunk_branch
from riesz.surrogate.surrogate import COORDINATES, Surrogate, frame_of


def initial_surrogate(
    problem: InverseProblem, key: PRNGKeyArray, *, width: int, features: int
) -> Surrogate:
    """A factorised network, in the frame of the mesh and of the observed values."""
    forward, latents = problem.forward, problem.latents
    boundary = boundary_values(forward, latents)
    network = trunk_branch(
        forward.space.mesh.dim,
        latents.num_coordinates,
        key,
        linear=affine_coordinates(forward, latents),
        width=width,
        features=features,
        dtype=forward.dtype,
    )
    bare = Surrogate(network, boundary, frame_of(forward.space.mesh, 0.0, forward.dtype))
    lifted = at_sensors(problem, bare, jnp.zeros(problem.num_coordinates, forward.dtype))
    scale = float(jnp.sqrt(jnp.mean((problem.observed - lifted) ** 2)))
    scale = scale or float(np.abs(problem.observed).max()) or 1.0
    return Surrogate(network, boundary, frame_of(forward.space.mesh, scale, forward.dtype))


def at_sensors(
    problem: InverseProblem, surrogate: Surrogate, coordinates: Float[Array, " coordinate"]
) -> Float[Array, " sensor"]:
    """The surrogate as exact engines observe a state: interpolated from the nodes around."""
    dofs = problem.operator.dofs
    x = problem.forward.cells.domain.nodes[:, dofs.ravel()].T
    values = values_at_nodes(surrogate, dofs.ravel(), x, {COORDINATES: coordinates})
    return jnp.sum(problem.operator.weights * values.reshape(dofs.shape), axis=0)


def equation_inputs(
    problem: InverseProblem, draws: Float[Array, "draw coordinate"]
) -> dict[str, PyTree]:
    """What the equation and the surrogate read, for each draw."""
    return jax.vmap(lambda one: {**problem.z(one), COORDINATES: one})(draws)


def log_likelihoods(
    problem: InverseProblem, surrogate: Surrogate, draws: Float[Array, "draw coordinate"]
) -> Float[Array, " draw"]:
    """The log-density of the observations under the surrogate, for each draw."""

    def one(coordinates):
        predicted = at_sensors(problem, surrogate, coordinates)
        return problem.likelihood.log_prob(problem.observed, predicted, problem.z(coordinates))

    return jax.vmap(one)(draws)
