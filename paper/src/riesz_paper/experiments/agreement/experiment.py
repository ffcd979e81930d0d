r"""GP-D on a made-up aquifer: a surrogate, which solves no equation, against `marginal`.

$-\nabla\cdot(a\nabla u) = f$ over the synthetic plain, with a Gaussian source, boundary values that
are a Gaussian process about a linear trend, and a diffusivity that is constant or a log-Gaussian
process. Given the diffusivity, `marginal` is exact; over the diffusivity chains sample.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.density.engine import Engine
from riesz.density.marginal.linear import conditional_moments
from riesz.density.marginal.marginal import Marginal
from riesz.density.surrogate.surrogate import Surrogate
from riesz.fem.terms.weakform import diffusion, source
from riesz.io.store.results import Row
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesher.polygon import mesh_from_polygon
from riesz.method.gaussian_vi import GaussianVI
from riesz.method.laplace import Laplace
from riesz.method.mcmc.mcmc import MCMC
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior
from riesz.prediction.predict import predict
from riesz.priors.gaussian_process import GP, BoundaryGP, LogGP
from riesz.priors.kernels import Matern52
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem
from riesz.problem.unknowns import Unknown
from riesz_paper.data.synthetic import aquifer_outline, aquifer_wells
from riesz_paper.experiments.field.moments import FieldMoments, held_against, worst_of
from riesz_paper.running.task import Experiment, Task

KM = 1000.0
COARSE_EDGE, SIMPLIFIED, LEVELS = 40.0, 7.0, 3  # km, and meshes
NUM_WELLS, NOISE = 60, 0.3
SOURCE = Matern52(60.0, 0.004)
BOUNDARY = Matern52(60.0, 3.0)
DIFFUSIVITY = Matern52(60.0, 0.5)
INDUCING = {"source": 16, "boundary": 10, "diffusivity": 4}
NUM_REPLICATES = {
    "smoke": {"log-gp": 1},
    "quick": {"constant": 1, "log-gp": 1},
    "full": {"constant": 3, "log-gp": 1},  # sampling a diffusivity takes ten minutes
}
NUTS = MCMC(kernel="nuts", num_warmup=300, num_samples=300)
EMULATE, CONDITIONAL = Engine(GaussianVI(), Surrogate()), Engine(NUTS, Marginal())
REFERENCE_VALUES = 300
"""Of the diffusivity, over which the reference is averaged: its own error is a 17th of their sd."""

DRAWS = 2000
"""Of the normal q by a surrogate, for moments of the field: they cost no solve."""


def agreement(seed: int, mode: str) -> Experiment:
    """One row a kind of diffusivity and data set."""
    tasks = [
        Task({"diffusivity": kind, "replicate": k}, partial(row, kind, seed, k))
        for kind, count in NUM_REPLICATES[mode].items()
        for k in range(count)
    ]
    config: dict[str, Any] = {"mode": mode, "wells": NUM_WELLS, "noise": NOISE, **INDUCING}
    return Experiment("agreement", config, tasks, summarise, partial(draw, seed))


def meshes(wells: Float[np.ndarray, "well 2"]) -> Hierarchy:
    coarse = mesh_from_polygon(
        aquifer_outline() / KM, max_edge=COARSE_EDGE, simplify=SIMPLIFIED, keep_inside=wells
    )
    return hierarchy(coarse, LEVELS)


def posed(
    kind: str, places: Float[np.ndarray, "well 2"], values: Float[np.ndarray, " well"]
) -> InverseProblem:
    latents = {"f": GP(SOURCE, INDUCING["source"])}
    if kind == "log-gp":
        latents["a"] = LogGP(DIFFUSIVITY, INDUCING["diffusivity"])
    edge = BoundaryGP(BOUNDARY, trend_sd=10.0, inducing=INDUCING["boundary"])
    return inverse_problem(
        meshes(places),
        # A known part of the source fixes the scale: ratios alone would be identified otherwise.
        diffusion("a" if "a" in latents else 1.0) - source("f") - source(0.001),
        latents=latents,
        observations=observations(places, values),
        likelihood=Gaussian(NOISE),
        dirichlet={"outer": Unknown(edge)},
    )


def data_problem(kind: str, seed: int, replicate: int) -> InverseProblem:
    """Data from the model itself: engines are compared, not models."""
    rng = np.random.default_rng([seed, replicate])
    places = aquifer_wells(NUM_WELLS, int(rng.integers(1 << 31))) / KM
    blank = posed(kind, places, np.zeros(NUM_WELLS))
    truth = blank.state(jnp.asarray(rng.normal(size=blank.num_coordinates)))
    values = np.asarray(blank.operator @ truth) + NOISE * rng.normal(size=NUM_WELLS)
    return posed(kind, places, values)


def row(kind: str, seed: int, replicate: int) -> Row:
    problem = data_problem(kind, seed, replicate)
    clock = process_time()
    found = EMULATE.run(problem, seed=replicate)
    ours, seconds = by_draws(found), process_time() - clock
    clock = process_time()
    exact = CONDITIONAL.run(problem, seed=replicate)
    theirs, exact_seconds = exactly(exact), process_time() - clock
    return {
        "unknowns": problem.num_coordinates,
        **held_against(ours, theirs),
        "rounds": len(found.history["moved"]),
        "cpu_seconds": seconds,
        "conditional_cpu_seconds": exact_seconds,
    }


def inside(mesh: Mesh) -> Float[np.ndarray, "node 2"]:
    return mesh.nodes[~boundary_node_mask(mesh)]


def by_draws(posterior: Posterior) -> FieldMoments:
    mesh = posterior.problem.forward.space.mesh
    found = predict(posterior, "u", inside(mesh), num_draws=DRAWS, quantiles=())
    return FieldMoments(found.mean, found.sd)


def exactly(posterior: Posterior) -> FieldMoments:
    mesh = posterior.problem.forward.space.mesh
    found = conditional_moments(posterior, inside(mesh), max_others=REFERENCE_VALUES)
    return FieldMoments(found.mean, found.sd)


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    return {"rows": len(rows), **worst_of(rows)}


def draw(seed: int, rows: Sequence[Row], out: Path) -> None:
    """The first data set with constant diffusivity: exact mean and sd, and the wells."""
    problem = data_problem("constant", seed, 0)
    posterior = Engine(Laplace(), Marginal(num_draws=2)).run(problem)
    mesh = problem.forward.space.mesh
    found = conditional_moments(posterior, mesh.nodes)
    figure, panels = new_figure(2, width=5.2)
    named = (("mean head", found.mean, "viridis"), ("its sd", found.sd, "magma"))
    for axes, (title, values, colours) in zip(panels, named, strict=True):
        draw_field(axes, mesh, values, label=f"{title}, m", cmap=colours)
        axes.plot(*problem.observations.points.T, "k.", markersize=3)
        axes.set(title=title, xlabel="x, km", ylabel="y, km")
    save_figure(out / "agreement.png", figure)
