"""Heads alone fix only f/a: who is warned, and who is not."""

import warnings

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import nodal
from riesz.fem.terms.regional import by_region
from riesz.fem.terms.weakform import (
    diffusion,
    integral,
    neumann,
    point_source,
    reaction,
    robin,
    source,
)
from riesz.mesh.shapes import rectangle
from riesz.mesh.tags import tag_region
from riesz.priors.gaussian_process import GP, LogGP
from riesz.priors.kernels import Matern52
from riesz.priors.latent import latent_space
from riesz.problem.identifiability import tell_unidentified_scale
from riesz.problem.posing import with_fields

MESH = rectangle((4, 4))
HALVES = tag_region(MESH, "west", [[0, 0], [0.5, 0], [0.5, 1], [0, 1]])
VAGUE, NEAR_FIVE = dist.LogNormal(0.0, 1.0), dist.LogNormal(1.6, 0.1)
WELL = [[0.5, 0.5]]


def tell(equation, **priors):
    latents = latent_space(priors, MESH)
    form = with_fields(equation, latents, MESH.dim)
    tell_unidentified_scale((boundary_value_problem(P1(MESH), form, {"left": 0.0}),), latents)


@pytest.mark.parametrize(
    ("equation", "priors"),
    [
        (diffusion("a") - source("f"), {"a": VAGUE, "f": dist.Normal(0.0, 1.0)}),
        (diffusion("a"), {"a": VAGUE}),
        (
            diffusion("a") - source("f"),
            {"a": LogGP(Matern52(), inducing=8), "f": GP(Matern52(1.0), inducing=8)},
        ),
        (diffusion("a") - source(0.0) + neumann(nodal(jnp.zeros(25)), on="top"), {"a": VAGUE}),
        (diffusion(lambda x, z: jnp.exp(z["b"]) * (1 + x[0])), {"b": dist.Normal(0.0, 1.0)}),
        (diffusion(by_region(HALVES, {"west": "a"}, rest="b")), {"a": VAGUE, "b": VAGUE}),
    ],
    ids=["a and f", "a alone", "fields", "zero source", "function", "regions"],
)
def test_a_scale_that_only_priors_fix_is_told(equation, priors):
    with pytest.warns(UserWarning, match="every term .* informative prior"):
        tell(equation, **priors)


@pytest.mark.parametrize(
    ("equation", "priors"),
    [
        (diffusion("a") - source(1.0), {"a": VAGUE}),
        (diffusion(1.0) - source("f"), {"f": dist.Normal(0.0, 1.0)}),
        (diffusion("a") + neumann(lambda x: x[0], on="top"), {"a": VAGUE}),
        (diffusion("a") - point_source(WELL, [2.0]), {"a": VAGUE}),
        (diffusion("k") + reaction("a"), {"k": NEAR_FIVE, "a": VAGUE}),
        (diffusion("a") + robin(2.0, "h", on="top"), {"a": VAGUE, "h": dist.Normal(0.0, 9.0)}),
        (diffusion("a") - source("f"), {"a": LogGP(Matern52(sd=0.1), 8), "f": dist.Normal(0, 1)}),
        (
            integral(lambda u, v, z: (z["a"] * u.grad) @ v.grad + u.value * v.value),
            {"a": dist.Uniform(0.9, 1.1)},
        ),
        (diffusion(by_region(HALVES, {"west": 2.0}, rest="a")), {"a": VAGUE}),
    ],
    ids=[
        *("source", "diffusivity", "flux", "well", "prior", "river", "field prior", "by hand"),
        "one region",
    ],
)
def test_a_known_source_flux_or_informative_prior_fixes_the_scale(equation, priors):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tell(equation, **priors)
    assert not [one for one in told if "every term" in str(one.message)]


def test_the_warning_names_the_unknowns():
    with pytest.warns(UserWarning, match=r"\(diffusion by 'a', point_source by 'q'\)"):
        tell(diffusion("a") - point_source(WELL, "q"), a=VAGUE, q=dist.Normal(0.0, 1.0).expand([1]))
