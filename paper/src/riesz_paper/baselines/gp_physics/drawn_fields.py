r"""Fields that are drawn at each place on its own, as doubly stochastic inference does.

At a place a field is $m(x) + s(x)\,\xi(x)$ with the moments of its sparse process and standard
normal noise that is independent from place to place: a hash of the place and a key, so that a place
has one value whichever mini-patch asks for it, and nothing as large as the mesh is drawn.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, UInt32

from riesz.fem.terms.weakform import WeakForm, advection, diffusion, source
from riesz_paper.baselines.gp_physics.sparse_process import Place, Projection

ODD = 0x9E3779B1
"""A multiplier that spreads bits: the golden ratio, as an odd number of 32 bits."""


FINEST = 2.0**32
"""Places to the unit that have noise of their own."""


class DrawnField(eqx.Module):
    """One draw of a sparse process."""

    projection: Projection
    key: PRNGKeyArray

    def __call__(self, x: Place) -> Float[Array, ""]:
        mean, variance = self.projection.at(x)
        return mean + jnp.sqrt(variance) * place_noise(self.key, x)


def place_noise(key: PRNGKeyArray, x: Place) -> Float[Array, ""]:
    """A standard normal number that belongs to this place."""
    noise = jr.normal(jr.fold_in(key, place_hash(x)), (), x.dtype)
    # Else the compiler hashes the place again wherever the number is used.
    return jax.lax.optimization_barrier(noise)


def place_hash(x: Place) -> UInt32[Array, ""]:
    """The bits of the coordinates, mixed into 32.

    Rounded: the last bits depend on how a program was compiled, and a value and its gradient are
    two programs.
    """
    words = jax.lax.bitcast_convert_type(jnp.round(x * FINEST), jnp.uint32).ravel()
    mixed = jnp.zeros((), jnp.uint32)
    for word in words:
        mixed = (mixed ^ word) * jnp.uint32(ODD)
        mixed = mixed ^ (mixed >> 15)
    return mixed


def diffusivity_at(x: Place, z: PyTree) -> Float[Array, ""]:
    return jnp.exp(z["log_diffusivity"](x))


def source_at(x: Place, z: PyTree) -> Float[Array, ""]:
    return z["source"](x)


def gp_d_form() -> WeakForm:
    r"""$-\nabla\cdot(a\nabla u) = f$."""
    return diffusion(diffusivity_at) - source(source_at)


def gp_dt_form() -> WeakForm:
    r"""$-\nabla\cdot(a\nabla u) + \tau\cdot\nabla u = f$."""
    return diffusion(diffusivity_at) + advection("transport") - source(source_at)
