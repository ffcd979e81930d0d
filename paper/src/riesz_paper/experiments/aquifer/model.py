r"""Models of hydraulic head over the plain: water seeps in where nobody measured it.

$$-\nabla\cdot(a\nabla u) + \tau\cdot\nabla u = f$$

with a Gaussian source $f$, a diffusivity $a$ relative to its median (only $f / a$ can be known from
heads), a velocity $\tau$, and boundary values that are a Gaussian process about a linear trend.
Lengths are in km, heads in standard deviations of the training wells.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from riesz.density.marginal.host import data_model
from riesz.density.marginal.linear import MarginalDensity, mixture_at
from riesz.density.marginal.marginal import Marginal
from riesz.density.marginal.points import at_points
from riesz.fem.linear.linear_solve import SparseLU
from riesz.fem.terms.weakform import WeakForm, advection, diffusion, source
from riesz.mesh.mesh import Mesh
from riesz.method.base import Work
from riesz.method.laplace import Laplace
from riesz.observe.likelihood import Gaussian
from riesz.observe.observables import AtPoints
from riesz.observe.observations import Observations
from riesz.priors.gaussian_process import BoundaryGP, LogGP
from riesz.priors.kernels import LearnedScales, Matern52
from riesz.priors.spde import SPDEField
from riesz.problem.linearity import Parts, linear_parts
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import Unknown
from riesz_paper.baselines.standard import Standard, standard_of
from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import NUM_DRAWS, Draws, Method, Values, normal_draws

KM = 1000.0

SOURCE_LENGTH, SOURCE_SD = 8.0, 0.01
"""Medians, in km and in heads a square km: such a source moves heads by about sd times length
squared, half a standard deviation of the wells."""

BOUNDARY_LENGTH, BOUNDARY_SD, TREND_SD = 40.0, 2.0, 10.0
"""The plain's heads fall by some ten standard deviations of the wells of a part of it."""

DIFFUSIVITY_LENGTH, DIFFUSIVITY_SD = 30.0, 0.7
VELOCITY_SD = 0.05
"""In a km: with it diffusion and transport do alike over 20 km."""

NOISE = 0.05
BOUNDARY_POINTS = 30
PARTS = 16
"""Values of scales over which predictions are averaged."""

START_SPREAD = 0.5


@dataclass(frozen=True)
class Structure:
    """What a model of head consists of."""

    transport: bool = False
    diffusivity_points: int = 0  # inducing points of its logarithm; none where it is constant


def head_problem(
    mesh: Mesh, points: np.ndarray, values: np.ndarray, structure: Structure
) -> InverseProblem:
    """Which source, boundary values and coefficients explain standardised heads?"""
    seep = SPDEField(SOURCE_SD, SOURCE_LENGTH, learned=LearnedScales(1.0, 0.7))
    edge = BoundaryGP(
        Matern52(BOUNDARY_LENGTH, BOUNDARY_SD),
        trend_sd=TREND_SD,
        inducing=BOUNDARY_POINTS,
        learned=LearnedScales(1.0, 0.5),
    )
    with warnings.catch_warnings():
        # That only ratios are identified is meant: the median diffusivity is the unit.
        warnings.filterwarnings("ignore", "every term of the equation is scaled")
        return inverse_problem(
            mesh,
            equation_of(structure),
            latents={"source": seep, "noise": dist.LogNormal(np.log(NOISE), 1.0)}
            | coefficients_of(structure),
            # Wells of several depths share a place, and their heads differ: that is noise here.
            observations=Observations(points, values, AtPoints(points)),
            likelihood=Gaussian("noise"),
            dirichlet={"outer": Unknown(edge)},
        )


def equation_of(structure: Structure) -> WeakForm:
    form = diffusion("diffusivity" if structure.diffusivity_points else 1.0) - source("source")
    return form + advection("velocity") if structure.transport else form


def coefficients_of(structure: Structure) -> dict:
    found = {}
    if structure.diffusivity_points:
        kernel = Matern52(DIFFUSIVITY_LENGTH, DIFFUSIVITY_SD)
        found["diffusivity"] = LogGP(kernel, structure.diffusivity_points, at_nodes=True)
    if structure.transport:
        found["velocity"] = dist.Normal(jnp.zeros(2), VELOCITY_SD)
    return found


@dataclass(frozen=True, eq=False)
class HeadPredictor:
    """Heads given the data, in their own unit: a mixture over values of scales and coefficients."""

    problem: InverseProblem
    parts: Parts
    others: Float[np.ndarray, "part other"]
    standard: Standard

    def __call__(self, at: Covariates) -> Draws:
        found = mixture_at(self.problem, self.parts, self.others, at.points / KM)
        spread = np.hypot(found.sds, found.noise[:, None])
        each = -(-NUM_DRAWS // len(spread))
        scaled = [normal_draws(*part, each) for part in zip(found.means, spread, strict=True)]
        return self.standard.centre + self.standard.spread * np.concatenate(scaled)


def conditional_head(mesh: Mesh, structure: Structure) -> Method:
    """Source and boundary integrated out, scales by the curvature at their most probable values.

    The mesh is in km; places are in metres.
    """

    @lru_cache(maxsize=1)
    def posed(points: bytes, values: bytes) -> InverseProblem:
        # Restarts share the problem, and what is compiled for it.
        places = np.frombuffer(points).reshape(-1, 2) / KM
        return head_problem(mesh, places, np.frombuffer(values), structure)

    def train(training: Covariates, target: Values, *, seed: int) -> HeadPredictor:
        check_target(training, target)
        standard = standard_of(target)
        values = np.asarray(standard.scaled(target))
        problem = posed(training.points.tobytes(), values.tobytes())
        _, start_key = jr.split(jr.key(seed))
        parts = linear_parts(problem)
        start = START_SPREAD * (seed > 0) * jr.normal(start_key, parts.others.shape)
        marginal = Marginal(num_draws=PARTS, num_values=PARTS)
        at = at_points(problem, problem.operator, SparseLU())
        model = data_model(problem, parts, at)
        work = Work()
        search = marginal.search_from(start, MarginalDensity(problem, parts, at), model, work)
        result = marginal.likely_values(search, Laplace(), work)
        for note in (*search.notes, *result.notes):
            warnings.warn(f"{structure}: {note}", stacklevel=2)
        return HeadPredictor(problem, parts, np.asarray(result.values[0]), standard)

    return train
