"""Unknowns before the data: draws of the prior, to hold those of the posterior against."""

from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from riesz.arrays import on_device
from riesz.posterior.posterior import is_field, regions_of
from riesz.priors.fields import ALL, FieldCoefficient, NodalField
from riesz.priors.gaussian_process import ScaledNodes
from riesz.priors.latent import LatentSpace
from riesz.problem.problem import InverseProblem

MOST_NODES = 300
"""At which the widths of a field before and after the data are compared."""

PRIOR_DRAWS = 16
"""Of numbers, for each draw of the posterior; of a field, which takes a matrix or a solve, one."""

SHARED = 8
"""Draws in a row that share the scales of a field, for which its kernel has to be factorised."""

Components = Float[np.ndarray, "prior_draw component"]


def field_of(latents: LatentSpace, name: str) -> Any:
    """None of a number."""
    coefficient = latents.latents[name].coefficient(name)
    return coefficient.field if isinstance(coefficient, FieldCoefficient) else None


def is_map(problem: InverseProblem, name: str) -> bool:
    """Whether an unknown is a field that is more than a number for each region."""
    return is_field(problem, name) and not regions_of(problem, name)


def map_nodes(problem: InverseProblem) -> Int[np.ndarray, " shown"]:
    num_nodes = problem.forward.space.mesh.num_nodes
    return np.arange(0, num_nodes, -(-num_nodes // MOST_NODES))


def draw_prior(
    problem: InverseProblem, names: tuple[str, ...], num_draws: int, seed: int
) -> dict[str, Components]:
    """Numbers, also of regions, as they are; fields at the nodes that are shown."""
    keys = jr.split(jr.fold_in(jr.key(seed), 1))
    latents = problem.latents.latents
    maps = {name: latents[name] for name in names if is_map(problem, name)}
    numbers = {name: latents[name] for name in names if name not in maps}
    nodes = map_nodes(problem)
    # Where that can be, a field is evaluated at those nodes alone.
    short = {
        name: one.at_some(nodes)
        for name, one in maps.items()
        if isinstance(one, ScaledNodes) and isinstance(one.field, NodalField)
    }
    fields = LatentSpace(maps | short, tuple(maps))
    result: dict[str, Any] = {}
    for name, weights in prior_draws(fields, keys[0], num_draws, problem.forward.dtype).items():
        some = ALL if name in short else nodes
        result[name] = field_of(fields, name).nodal_draws(np.asarray(weights), some)
    result |= prior_draws(
        LatentSpace(numbers, tuple(numbers)),
        keys[1],
        PRIOR_DRAWS * num_draws,
        problem.forward.dtype,
    )
    return {name: np.asarray(one).reshape(len(one), -1) for name, one in result.items()}


def prior_draws(
    space: LatentSpace, key: PRNGKeyArray, count: int, dtype: Any
) -> dict[str, Float[Array, " prior_draw *value"]]:
    draws = np.array(jr.normal(key, (count, space.num_coordinates), dtype))
    shared = np.arange(count) // SHARED * SHARED
    for name, part in space.slices().items():
        scales = slice(part.start, part.start + space.latents[name].num_scales)
        draws[:, scales] = draws[shared, scales]
    return space.of_draws(on_device(draws))
