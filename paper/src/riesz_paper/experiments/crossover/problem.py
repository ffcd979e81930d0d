r"""A log-diffusivity of few modes on ever finer meshes: the same posterior, at another cost.

$-\nabla\cdot(a \nabla u) = 1$ on the unit square or cube with $u = 0$ on its boundary, and
$\log a = \sum_k \xi_k c_k \prod_i \cos(\pi k_i x_i)$ with the modes of lowest $|k|$ and
$c_k = 1 / (1 + |k|)$. Noise is one per cent of the largest value at the sensors. Data come from the
mesh that is fitted: what is asked is what a posterior on it costs.
"""

from itertools import product

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import box, rectangle
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem

NUM_SENSORS, RELATIVE_NOISE = 40, 0.01
CELLS = 4
"""Along each side of the coarsest mesh."""

HIGHEST = 8
"""Modes are among those with fewer half waves along each axis."""


def modes(dim: int, count: int) -> Float[np.ndarray, "mode dim"]:
    every = np.array(list(product(range(HIGHEST), repeat=dim)), dtype=float)
    return every[np.argsort(np.linalg.norm(every, axis=1), kind="stable")[:count]]


def posed(
    dim: int, levels: int, num_unknowns: int, values: Float[np.ndarray, " sensor"], noise_sd: float
) -> InverseProblem:
    waves = modes(dim, num_unknowns)
    scales = 1 / (1 + np.linalg.norm(waves, axis=1))

    def diffusivity(x, z):
        terms = jnp.prod(jnp.cos(jnp.pi * waves * x), axis=-1)
        return jnp.exp(z["modes"] @ (scales * terms))

    coarsest = rectangle((CELLS, CELLS)) if dim == 2 else box((CELLS, CELLS, CELLS))
    points = np.random.default_rng(dim).uniform(0.1, 0.9, (NUM_SENSORS, dim))
    return inverse_problem(
        hierarchy(coarsest, levels),
        diffusion(diffusivity) - source(1.0),
        latents={"modes": dist.Normal(jnp.zeros(num_unknowns), 1.0)},
        dirichlet={"boundary": 0.0},
        observations=observations(points, values),
        likelihood=Gaussian(noise_sd),
    )


def readings(
    dim: int, levels: int, num_unknowns: int, seed: int, count: int
) -> tuple[Float[np.ndarray, "data_set sensor"], float]:
    """The first data sets, each with a truth of its own, and the sd of their noise."""
    empty = posed(dim, levels, num_unknowns, np.zeros(NUM_SENSORS), 1.0)
    truths, noise = (
        np.stack(
            [
                np.random.default_rng([seed, dim, num_unknowns, number, part]).normal(size=size)
                for number in range(count)
            ]
        )
        for part, size in enumerate((num_unknowns, NUM_SENSORS))
    )
    clean = np.stack([np.asarray(empty.operator @ empty.state(jnp.asarray(t))) for t in truths])
    noise_sd = RELATIVE_NOISE * float(np.abs(clean[0]).max())
    return clean + noise_sd * noise, noise_sd
