r"""VAE-DT and VAE-NLD: an autoencoder whose decoder's mean is to satisfy an equation.

The mean $u(x, z)$ is handed to the plug-in as anybody's network would be. Coefficients are small
networks trained with the rest; the weak form reads what they give for each code. A mesh covers the
sampled region, and nothing flows through its boundary. Diffusivities keep within a factor of four
of one where the state is flat: were they free, to make them vanish would satisfy any equation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import Nodal
from riesz.fem.terms.weakform import WeakForm, advection, diffusion, source
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesher.polygon import mesh_from_points
from riesz.penalty.gram import Gram
from riesz.penalty.penalty import WeakFormPenalty, weak_form_penalty
from riesz_paper.baselines.vae.columns import Places
from riesz_paper.baselines.vae.model import trained_vae
from riesz_paper.baselines.vae.networks import Code, Perceptron, Place, perceptron
from riesz_paper.baselines.vae.settings import MODERN, VaeSettings
from riesz_paper.baselines.vae.training import AbstractCoefficients
from riesz_paper.regression.method import Method

COARSE_EDGE = 2.0  # in standard deviations of the coordinates
LEVELS = 3
QUADRATURE_DEGREE = 2
WIDTH = 16
LARGEST_FACTOR = 4.0
"""How far a diffusivity may be from one, either way."""

Nodes = Float[Array, "node dim"]


class TransportCoefficients(AbstractCoefficients):
    r"""$a(x, z)$, $\tau(z)$ and $f(x, z)$."""

    diffusivity: Perceptron
    velocity: Perceptron
    source: Perceptron

    def latents(self, nodes: Nodes, code: Code) -> dict[str, PyTree]:
        return {
            "diffusivity": Nodal(bounded(at_nodes(self.diffusivity, nodes, code))),
            "velocity": self.velocity(code),
            "source": Nodal(at_nodes(self.source, nodes, code)),
        }


class NonlinearCoefficients(AbstractCoefficients):
    r"""$a(z, u, \nabla u) = b(z, u) / \sqrt{1 + |\nabla u|^2 / \kappa(z)^2}$ and $f(x, z)$."""

    shape: Perceptron  # of z: how log b depends on u, and log kappa
    source: Perceptron

    def latents(self, nodes: Nodes, code: Code) -> dict[str, PyTree]:
        level, slope, edge = self.shape(code)
        return {
            "level": level,
            "slope": slope,
            "edge": bounded(edge),
            "source": Nodal(at_nodes(self.source, nodes, code)),
        }


def transport_coefficients(
    key: PRNGKeyArray, num_codes: int, dtype: np.dtype
) -> TransportCoefficients:
    keys = jr.split(key, 3)
    return TransportCoefficients(
        diffusivity=perceptron((2 + num_codes, WIDTH, 1), "tanh", keys[0], dtype),
        velocity=perceptron((num_codes, WIDTH, 2), "tanh", keys[1], dtype),
        source=perceptron((2 + num_codes, WIDTH, 1), "tanh", keys[2], dtype),
    )


def nonlinear_coefficients(
    key: PRNGKeyArray, num_codes: int, dtype: np.dtype
) -> NonlinearCoefficients:
    shape_key, source_key = jr.split(key)
    return NonlinearCoefficients(
        shape=perceptron((num_codes, WIDTH, 3), "tanh", shape_key, dtype),
        source=perceptron((2 + num_codes, WIDTH, 1), "tanh", source_key, dtype),
    )


def at_nodes(network: Perceptron, nodes: Nodes, code: Code) -> Float[Array, " node"]:
    return jax.vmap(lambda x: network(jnp.concatenate([x, code]))[0])(nodes)


def bounded(outputs: Float[Array, "*node"]) -> Float[Array, "*node"]:
    """Positive, and within a factor of one."""
    return LARGEST_FACTOR ** jnp.tanh(outputs)


def edge_preserving(
    x: Place, z: dict[str, Any], u: Float[Array, ""], grad_u: Float[Array, " dim"]
) -> Float[Array, ""]:
    """Weak across steep slopes, so that edges last (Rudin et al., 1992; Perona & Malik, 1990)."""
    flat = bounded(z["level"] + z["slope"] * u)
    return flat / jnp.sqrt(1 + grad_u @ grad_u / z["edge"] ** 2)


@dataclass(frozen=True, eq=False)
class NetworkEquation:
    """A weak form whose coefficients are networks."""

    form: WeakForm
    fresh: Callable[[PRNGKeyArray, int, np.dtype], AbstractCoefficients]

    def penalty(self, places: Places, num_patches: int) -> WeakFormPenalty:
        return penalty_on(self, places.tobytes(), num_patches)

    def coefficients(
        self, key: PRNGKeyArray, num_codes: int, dtype: np.dtype
    ) -> AbstractCoefficients:
        return self.fresh(key, num_codes, dtype)


DIFFUSION_TRANSPORT = NetworkEquation(
    diffusion("diffusivity") + advection("velocity") - source("source"), transport_coefficients
)
NONLINEAR_DIFFUSION = NetworkEquation(
    diffusion(edge_preserving) - source("source"), nonlinear_coefficients
)


@lru_cache(maxsize=16)
def penalty_on(equation: NetworkEquation, region: bytes, num_patches: int) -> WeakFormPenalty:
    """The plug-in; the same object for the same places, so that steps compile once."""
    meshes = meshes_around(region)
    problem = boundary_value_problem(
        P1(meshes.meshes[-1]), equation.form, quadrature_degree=QUADRATURE_DEGREE
    )
    return weak_form_penalty(
        problem, meshes, num_patches=num_patches, gram=Gram(reaction=1.0), whole_mesh=True
    )


@lru_cache(maxsize=16)
def meshes_around(region: bytes) -> Hierarchy:
    """Meshes of the surroundings of places, given by their bytes."""
    places = np.frombuffer(region).reshape(-1, 2)
    return hierarchy(mesh_from_points(places, max_edge=COARSE_EDGE, margin=COARSE_EDGE / 4), LEVELS)


def vae_dt(settings: VaeSettings = MODERN) -> Method:
    r"""With $-\nabla\cdot(a\nabla u) + \tau\cdot\nabla u = f$."""
    return partial(trained_vae, settings=settings, equation=DIFFUSION_TRANSPORT)


def vae_nld(settings: VaeSettings = MODERN) -> Method:
    r"""With $-\nabla\cdot(a(z, u, \nabla u)\nabla u) = f$."""
    return partial(trained_vae, settings=settings, equation=NONLINEAR_DIFFUSION)
