r"""Truths that break the model: what they are, how strong, and which word points at them.

A break is strong enough to be spoken of when noiseless readings move by `LEAST_MOVED` noise sd
(root mean square), and when somebody who knew what to look for would see it: with the move
$\delta$ of the readings and their covariance $S$ under the model (noise, and the prior's spread by
the linearised equation), $\sqrt{\delta^\top S^{-1}\delta}$ is at least `LEAST_SEEN`. A break that
unknowns make up for within their priors, or that no sensor sees, cannot be found by anybody.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Bool, Float, PyTree

import riesz as rz
from riesz.diagnose.criticism.findings import Finding
from riesz.priors.fields import FieldCoefficient
from riesz.priors.regions import RegionValues
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.blind.model import Model

TERM, ZONE, PRIOR = "term", "zone", "prior"
EXTRA = "extra"
"""The unknown of the truth alone: the strength of what the model lacks, and where it is."""

LEAST_MOVED = 2.0
LEAST_SEEN = {TERM: 5.0, ZONE: 5.0, PRIOR: 2.5}
"""A prior that is off by three sd is seen by three at most, where it is one number."""

PRIOR_SHIFT = 3.0
STRENGTHS = tuple(2.0**k for k in range(-1, 7))
LENS, BUMP = 0.15, 0.12
"""Radius of a zone and width of a source that the model does not know, by the domain's length."""

MOST_MOVED = 1 / 3
"""The share of sensors that count as those which a break moves most."""


@dataclass(frozen=True)
class Break:
    """What is wrong with the model, and how the data show it."""

    kind: str
    what: str
    unknowns: tuple[str, ...]  # that stand in the term which is wrong
    moved: Float[np.ndarray, " sensor"]  # noiseless readings, in noise sd
    left: Float[np.ndarray, " sensor"]  # what of that the unknowns cannot make up for
    seen: float


def hidden_term(model: Model, what: str) -> rz.fem.WeakForm:
    """What the truth has and the model lacks; `EXTRA` is its strength and its place."""
    units = model.units
    length = units.length
    size = units.state * units.diffusivity / length**2
    size *= 1 + model.velocity * length / units.diffusivity / 5

    def near(x: Any, z: PyTree, width: float) -> Any:
        away = (x - z[EXTRA][1:] * length) / (width * length)
        return jnp.exp(-0.5 * (away @ away))

    if what == "source":
        return -rz.source(lambda x, z: 10 * size * z[EXTRA][0] * near(x, z, BUMP))
    if what == "reaction":
        rate = size / units.state
        return rz.reaction(lambda x, z: rate * z[EXTRA][0])

    def conducting(u, v, *, more):
        return tuple(more * slope for slope in u.slopes) @ v.grad

    def more(x: Any, z: PyTree) -> Any:
        inside = jax.nn.sigmoid(20 * (near(x, z, LENS) - 0.6))
        return units.diffusivity * z[EXTRA][0] * inside

    return rz.integral(conducting, more=more)


def extra_prior() -> dist.Distribution:
    """Its coordinates are its values."""
    return dist.Normal(0.0, 1.0).expand([3])


def shift_of(problem: InverseProblem, name: str) -> Float[np.ndarray, " coordinate"]:
    """By how much the coordinates of an unknown move where its prior is off by three sd.

    A field is off by three of its standard deviations everywhere, as nearly as it can be.
    """
    latent = problem.latents.latents[name]
    count, coefficient = latent.num_coordinates, latent.coefficient(name)
    if not isinstance(coefficient, FieldCoefficient) or isinstance(latent, RegionValues):
        return np.full(count, PRIOR_SHIFT)
    rows = jnp.concatenate([jnp.zeros((1, count)), jnp.eye(count)])
    weights = np.asarray(jax.vmap(latent.value)(rows))
    nodal = coefficient.field.nodal_draws(weights)
    nodal = np.log(nodal) if coefficient.field.is_log else nodal
    functions = (nodal[1:] - nodal[0]).T
    sd = np.sqrt(np.sum(functions**2, axis=1))
    return np.linalg.lstsq(functions, PRIOR_SHIFT * sd, rcond=1e-3)[0]


def visibility(
    moved: Float[np.ndarray, " sensor"], slopes: Float[np.ndarray, "sensor coordinate"]
) -> tuple[float, Float[np.ndarray, " sensor"]]:
    """How clearly a move is seen, and what of it is left; readings and slopes in noise sd."""
    covariance = np.eye(len(moved)) + slopes @ slopes.T
    solved = np.linalg.solve(covariance, moved)
    return float(np.sqrt(max(moved @ solved, 0.0))), solved


def is_clear(kind: str, moved: Float[np.ndarray, " sensor"], seen: float) -> bool:
    return bool(np.sqrt(np.mean(moved**2)) >= LEAST_MOVED and seen >= LEAST_SEEN[kind])


def most_moved(sizes: Float[np.ndarray, " sensor"]) -> Bool[np.ndarray, " sensor"]:
    """The third of the sensors, three at least, for which a number is largest."""
    count = min(len(sizes), max(3, round(MOST_MOVED * len(sizes))))
    marked = np.zeros(len(sizes), bool)
    marked[np.argsort(-np.abs(sizes))[:count]] = True
    return marked


def points_at(broken: Break, findings: Iterable[Finding]) -> bool:
    """Whether a finding of `riesz.diagnose.misfit` points at a break.

    Where a prior is off: a finding about the prior that names the unknown. Where a term is missing
    or a zone is wrong: a finding about the prior that names an unknown of the same term; or one
    with places, half of which are among the third of the sensors that the break moves most, by
    their noiseless readings or by what of these the unknowns cannot make up for.
    """
    return any(points(broken, one) for one in findings)


def points(broken: Break, finding: Finding) -> bool:
    if finding.kind == "prior":
        return any(name.split("[")[0] in broken.unknowns for name in finding.names)
    places = np.asarray(finding.places, int)
    if broken.kind == PRIOR or not len(places):
        return False
    return any(np.mean(most_moved(of)[places]) >= 0.5 for of in (broken.moved, broken.left))
