r"""GP-D and GP-DT improved: the surrogate sees all coefficients of source, boundary and medium.

As in the paper, source and log-diffusivity are Gaussian processes through inducing points and the
velocity is normal, and no equation is solved for their posterior. Unlike there, the surrogate is
affine in the coefficients of source and boundary (which has a Gaussian process about a trend),
scales are those that maximise the marginal likelihood with constant diffusivity, and predictions
carry the uncertainty of everything.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from riesz.baselines.standard import Standard, standard_of
from riesz.experiments.aquifer_model import (
    BOUNDARY_POINTS,
    KM,
    TREND_SD,
    Structure,
    head_problem,
    posed,
)
from riesz.fem.interpolate import point_operator
from riesz.infer.conditional import ConditionalSettings, conditional
from riesz.infer.emulate import emulate
from riesz.infer.posterior import Posterior
from riesz.infer.problem import InverseProblem
from riesz.latent.boundary_process import BoundaryGP
from riesz.latent.gaussian_process import GP
from riesz.latent.kernels import AbstractKernel, Matern52
from riesz.latent.scales import ScaledField
from riesz.mesh.refine import Hierarchy
from riesz.regression.covariates import Covariates, check_target
from riesz.regression.method import NUM_DRAWS, Draws, Method, Values, normal_draws

DIFFUSIVITY_POINTS = 12
STATES = 200
"""Draws of the unknowns whose states are predicted from."""


@dataclass(frozen=True, eq=False)
class EmulatedPredictor:
    """Heads under a posterior by `emulate`, in their own unit."""

    posterior: Posterior
    standard: Standard

    def __call__(self, at: Covariates) -> Draws:
        problem = self.posterior.problem
        operator = point_operator(problem.forward.space, at.points / KM)
        coordinates = self.posterior.sample(jr.key(0), STATES)
        states = self.posterior.states(problem, jr.key(1), coordinates)
        heads = np.asarray(jax.vmap(lambda state: operator @ state)(states))
        noise = np.asarray(jax.vmap(lambda c: problem.z(c)["noise"])(coordinates))
        each = NUM_DRAWS // STATES
        scaled = [
            normal_draws(mean, np.full(len(mean), sd), each)
            for mean, sd in zip(heads, noise, strict=True)
        ]
        return self.standard.centre + self.standard.spread * np.concatenate(scaled)


def emulated_head(meshes: Hierarchy, *, transport: bool) -> Method:
    """The meshes are in km; places are in metres."""

    def train(training: Covariates, target: Values, *, seed: int) -> EmulatedPredictor:
        check_target(training, target)
        standard = standard_of(target)
        points, values = training.points / KM, np.asarray(standard.scaled(target))
        problem = with_found_scales(meshes, points, values, transport=transport)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows of a table tell what comes out
            return EmulatedPredictor(emulate(problem, seed=seed, quiet=True), standard)

    return train


def with_found_scales(
    meshes: Hierarchy, points: np.ndarray, values: np.ndarray, *, transport: bool
) -> InverseProblem:
    """The problem with the scales that the marginal likelihood finds."""
    source_kernel, edge_kernel = found_kernels(meshes, points.tobytes(), values.tobytes())
    structure = Structure("process", transport, DIFFUSIVITY_POINTS)
    edge = BoundaryGP(edge_kernel, trend_sd=TREND_SD, inducing=BOUNDARY_POINTS)
    return posed(meshes, points, values, structure, GP(source_kernel), edge)


@lru_cache(maxsize=8)
def found_kernels(
    meshes: Hierarchy, points: bytes, values: bytes
) -> tuple[AbstractKernel, AbstractKernel]:
    """Of source and boundary; they do not depend on where the training of a surrogate starts."""
    places, heads = np.frombuffer(points).reshape(-1, 2), np.frombuffer(values)
    problem = head_problem(meshes.meshes[-1], places, heads, Structure("process"))
    posterior = conditional(problem, settings=ConditionalSettings(over="mode", num_draws=2))
    coordinates = jnp.asarray(posterior.distribution.sample(jr.key(0), 1)[0])
    slices = problem.latents.slices()
    kernels = []
    for name in ("source", "u_outer"):
        latent = problem.latents.latents[name]
        assert isinstance(latent, ScaledField)
        sd, length = latent.scales(coordinates[slices[name]])
        kernels.append(Matern52(float(length), float(sd)))
    return kernels[0], kernels[1]
