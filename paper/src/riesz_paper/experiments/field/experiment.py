r"""A log-diffusivity field with many unknowns: a surrogate held against exact sampling.

$-\nabla\cdot(a \nabla u) = 1$ with $u = 0$ on the boundary of the unit square and $\log a$ a
Karhunen-Loeve field; the data come from a finer mesh, noise is two per cent of the largest value.
Posteriors are compared as fields, node by node: eigenfunctions of a square come in pairs that may
be rotated, so that single coordinates mean nothing beyond one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from riesz.density.engine import Engine
from riesz.density.surrogate.surrogate import Surrogate
from riesz.fem.terms.weakform import diffusion, source
from riesz.io.store.results import Row
from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import hierarchy
from riesz.mesh.shapes import rectangle
from riesz.method.gaussian_vi import GaussianVI
from riesz.method.mcmc.mcmc import MCMC
from riesz.observe.likelihood import Gaussian
from riesz.observe.observations import observations
from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior
from riesz.priors.karhunen_loeve import KarhunenLoeve, karhunen_loeve_basis
from riesz.priors.kernels import Matern52
from riesz.problem.posing import inverse_problem
from riesz.problem.problem import InverseProblem
from riesz_paper.experiments.field.moments import FieldMoments, held_against, worst_of
from riesz_paper.running.task import Experiment, Task

KERNEL = Matern52(length_scale=0.3, sd=1.0)
RELATIVE_NOISE = 0.02
FINER = 2
"""Refinements between the fitted mesh and the one that makes the data."""


@dataclass(frozen=True)
class Sizes:
    """Of a run."""

    levels: int  # nested meshes from 5 x 5 nodes on
    num_terms: int
    num_sensors: int
    num_replicates: int
    num_warmup: int
    num_samples: int  # in each of two chains


SIZES = {
    "smoke": Sizes(2, 2, 12, 1, 20, 20),
    "quick": Sizes(3, 8, 50, 1, 200, 300),
    "full": Sizes(4, 16, 50, 3, 300, 800),
}
ENGINE = Engine(GaussianVI(), Surrogate())


def field(seed: int, mode: str) -> Experiment:
    """One row a data set: the errors of `emulate`, by a surrogate, and what both fits took."""
    sizes = SIZES[mode]
    tasks = [
        Task(
            {"method": "emulate", "nodes": num_nodes(sizes.levels), "replicate": replicate},
            partial(row, sizes, seed, replicate),
            apart=True,
        )
        for replicate in range(sizes.num_replicates)
    ]
    config = {"mode": mode, "relative_noise": RELATIVE_NOISE, **vars(sizes)}
    return Experiment("field", config, tasks, summarise, partial(draw, sizes=sizes, seed=seed))


def num_nodes(levels: int) -> int:
    return (2 ** (levels + 1) + 1) ** 2


def posed(
    levels: int, sizes: Sizes, points: Float[np.ndarray, "sensor 2"], values, noise_sd: float
) -> InverseProblem:
    return inverse_problem(
        hierarchy(rectangle((4, 4)), levels),
        diffusion("a") - source(1.0),
        latents={"a": KarhunenLoeve(KERNEL, sizes.num_terms, transform=jnp.exp)},
        dirichlet={"boundary": 0.0},
        observations=observations(points, values),
        likelihood=Gaussian(np.full(len(points), noise_sd)),
    )


def data_problem(
    sizes: Sizes, seed: int, replicate: int
) -> tuple[InverseProblem, Mesh, Float[np.ndarray, " finer_node"]]:
    """The problem on the mesh to be fitted, with data from a finer one, and the truth there."""
    rng = np.random.default_rng([seed, replicate])
    points = 0.05 + 0.9 * rng.uniform(size=(sizes.num_sensors, 2))
    finer = posed(sizes.levels + FINER, sizes, points, np.ones(len(points)), 1.0)
    coordinates = rng.normal(size=sizes.num_terms)
    clean = np.asarray(finer.operator @ finer.state(jnp.asarray(coordinates)))
    noise_sd = RELATIVE_NOISE * float(np.abs(clean).max())
    values = clean + noise_sd * rng.normal(size=len(points))
    mesh = finer.forward.space.mesh
    truth = coordinates @ karhunen_loeve_basis(mesh, KERNEL, sizes.num_terms)
    return posed(sizes.levels, sizes, points, values, noise_sd), mesh, truth


def moments(posterior: Posterior, sizes: Sizes) -> FieldMoments:
    """Exact for the Gaussian coordinates by a surrogate, those of all draws for a sampler."""
    mesh = posterior.problem.forward.space.mesh
    basis = karhunen_loeve_basis(mesh, KERNEL, sizes.num_terms)
    covariance = np.asarray(posterior.coordinate_covariance())
    variance = np.einsum("kn,kl,ln->n", basis, covariance, basis)
    return FieldMoments(np.asarray(posterior.coordinate_mean()) @ basis, np.sqrt(variance))


def row(sizes: Sizes, seed: int, replicate: int) -> Row:
    problem, _, _ = data_problem(sizes, seed, replicate)
    found, costs = timed(lambda: ENGINE.run(problem, seed=replicate))
    exact, exact_costs = timed(
        lambda: Engine(
            MCMC(kernel="nuts", num_warmup=sizes.num_warmup, num_samples=sizes.num_samples)
        ).run(problem, seed=replicate)
    )
    ours, theirs = moments(found, sizes), moments(exact, sizes)
    chains = np.asarray(exact.distribution.by_chain)  # pyright: ignore[reportAttributeAccessIssue]
    return {
        **held_against(ours, theirs),
        "nuts_chains_differ_sd": chain_difference(chains, problem, sizes),
        "nuts_effective_draws": float(np.min(exact.history["effective_draws"])),
        "nuts_r_hat": float(np.max(exact.history["r_hat"])),
        "rounds": len(found.history["moved"]),
        "seconds": costs[0],
        "cpu_seconds": costs[1],
        "nuts_seconds": exact_costs[0],
        "nuts_cpu_seconds": exact_costs[1],
    }


def chain_difference(
    chains: Float[np.ndarray, "chain draw term"], problem: InverseProblem, sizes: Sizes
) -> float:
    """How far the field's means of two chains are apart: the reference's own error."""
    basis = karhunen_loeve_basis(problem.forward.space.mesh, KERNEL, sizes.num_terms)
    fields = chains @ basis
    apart = np.abs(fields[0].mean(axis=0) - fields[1].mean(axis=0))
    return float(np.mean(apart / fields.std(axis=(0, 1))))


def timed(run) -> tuple[Posterior, tuple[float, float]]:
    """Compilation included: both engines compile once for a problem of their own."""
    clock, cpu = perf_counter(), process_time()
    found = jax.block_until_ready(run())
    return found, (perf_counter() - clock, process_time() - cpu)


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    if not rows:
        return {"rows": 0}
    return {
        "rows": len(rows),
        **worst_of(rows),
        "nuts chains differ by (sd)": max(r["nuts_chains_differ_sd"] for r in rows),
        "median CPU seconds": float(np.median([r["cpu_seconds"] for r in rows])),
        "median CPU seconds of nuts": float(np.median([r["nuts_cpu_seconds"] for r in rows])),
    }


def draw(rows: Sequence[Row], out: Path, *, sizes: Sizes, seed: int) -> None:
    """The first data set: the truth, the posterior mean and its spread."""
    problem, finer_mesh, truth = data_problem(sizes, seed, 0)
    found = moments(ENGINE.run(problem, seed=0), sizes)
    mesh = problem.forward.space.mesh
    figure, all_axes = new_figure(3)
    panels = (
        ("truth of log a", finer_mesh, truth),
        ("posterior mean", mesh, found.mean),
        ("its standard deviation", mesh, found.sd),
    )
    for axes, (title, own_mesh, values) in zip(all_axes, panels, strict=True):
        draw_field(axes, own_mesh, values)
        axes.plot(*problem.observations.points.T, "k.", markersize=3)
        axes.set_title(title)
    save_figure(out / "field.png", figure)
