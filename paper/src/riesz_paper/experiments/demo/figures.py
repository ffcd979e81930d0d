"""The first figure of the demo: our posterior over the exact one."""

from pathlib import Path

import jax.random as jr
import numpy as np
from jaxtyping import Float

from riesz.plot.fields import draw_field
from riesz.plot.figure import new_figure, save_figure
from riesz.posterior.posterior import Posterior
from riesz_paper.experiments.transport.exact import ExactPosterior

NUM_DRAWS = 1500


def draw_winds(
    posterior: Posterior,
    exact: ExactPosterior,
    prior_sd: float,
    truth: Float[np.ndarray, " 2"],
    path: Path,
) -> None:
    """Left the field behind the sensors, right draws of the wind over the exact density."""
    figure, (field, winds) = new_figure(2, width=4.8, height=4.6)
    problem = posterior.problem
    state = np.asarray(problem.state(posterior.coordinate_mean()))
    draw_field(field, problem.forward.space.mesh, state, label="state u (no unit)")
    field.scatter(
        *np.asarray(problem.observations.points).T, s=12, color="white", edgecolors="black"
    )
    field.set(title="what 25 sensors see", xlabel="x", ylabel="y")
    draws = prior_sd * np.asarray(posterior.sample(jr.key(0), NUM_DRAWS))
    winds.scatter(*draws.T, s=3, color="tab:blue", alpha=0.35, label="emulate: draws")
    for scale, style in ((1.0, "-"), (2.0, "--")):
        ring = ellipse(exact, scale)
        winds.plot(*(prior_sd * ring).T, style, color="black", label=f"exact: {scale:g} sd")
    winds.plot(*truth, "*", color="tab:red", markersize=12, label="true wind")
    winds.set(title="posterior of the wind", xlabel="wind along x", ylabel="wind along y")
    winds.legend(loc="best", fontsize="small")
    save_figure(path, figure)


def ellipse(exact: ExactPosterior, scale: float) -> Float[np.ndarray, "point 2"]:
    """Around the exact mean, so many standard deviations away."""
    away = exact.lattice - exact.mean
    factor = np.linalg.cholesky((exact.weights[:, None] * away).T @ away)
    angles = np.linspace(0, 2 * np.pi, 200)
    return exact.mean + scale * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ factor.T
