"""A fit of one test of the field: where the search begins, and the Gaussian about the mode."""

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float

import riesz as rz
from riesz_paper.experiments.pumping.field_tests import FieldTest, Slug
from riesz_paper.experiments.pumping.slug import SLUG, slug_problem
from riesz_pumping.fit import (
    NUM_DRAWS,
    closed_form_guess,
    coordinates_at,
    level_function,
    noise_of,
    normal_about,
    pumping_problem,
)
from riesz_pumping.well import Readings


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws of the parameters, and what readings should have been."""

    draws: dict[str, Float[np.ndarray, " draw"]]
    predicted: Float[np.ndarray, " reading"]  # at the mode
    published: dict[str, Float[np.ndarray, " reading"]]  # by source, where that tells all values
    cpu_seconds: float


def fit(test: FieldTest, seen: Readings, noise: str, seed: int) -> Fit:
    problem, start = posed(test, seen, noise)
    normal_about(problem, start())  # compiles all that is needed
    began = process_time()
    posterior = normal_about(problem, start())
    seconds = process_time() - began
    z = jax.vmap(problem.z)(posterior.sample(jr.key(seed), NUM_DRAWS))
    mode = np.asarray(posterior.coordinate_mean())
    levels = level_function(problem)
    return Fit(
        draws={name: np.asarray(z[name]) for name in test.well.parameters},
        predicted=levels(mode),
        published={
            source: levels(coordinates_at(problem, values, mode))
            for source, values in test.published.items()
            if set(values) == set(test.well.parameters)
        },
        cpu_seconds=seconds,
    )


def posed(
    test: FieldTest, seen: Readings, noise: str
) -> tuple[rz.InverseProblem, Callable[[], Any]]:
    """The problem, and where its search begins: by closed forms, or by few cells and steps."""
    well, told = test.well, noise_of(noise, seen)
    if isinstance(well, Slug):
        coarse, fine = (slug_problem(well, seen, *told, SLUG[one]) for one in (False, True))
        origin = np.zeros(coarse.num_coordinates)
        return fine, lambda: normal_about(coarse, origin).coordinate_mean()
    problem = pumping_problem(well, seen, *told)
    return problem, lambda: coordinates_at(problem, closed_form_guess(well, seen))
