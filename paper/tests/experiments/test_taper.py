"""The taper experiment: both readings of the perturbation, exact moments, and its files."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from riesz_paper.experiments.taper import experiment
from riesz_paper.running.runner import run_experiment

KEYS = {
    *("estimator", "reading", "radius", "patch_nodes", "P", "eps", "replicate"),
    *("exact", "estimate", "relative_error", "coverage", "bias", "sd"),
}


@pytest.fixture(scope="module")
def setting():
    return experiment.unit_square(3)  # 17 x 17 nodes


def test_read_as_a_dual_element_the_exact_value_is_a_sum_of_squared_normals(setting):
    cases = [("dual", eps, k) for eps in experiment.EPSILONS for k in range(20)]
    residuals = experiment.perturbed_residuals(setting, 0, cases)
    exact = np.array([float(setting.exact.squared(jnp.asarray(r))) for r in residuals])
    squares = exact / np.array([eps**2 for _, eps, _ in cases])
    free = setting.problem.num_free
    spread = np.sqrt(2 * free / len(cases))
    assert abs(squares.mean() - free) < 4 * spread
    smooth = experiment.perturbed_residuals(setting, 0, [("coefficients", 0.1, 0)])[0]
    assert float(setting.exact.squared(jnp.asarray(smooth))) < 1e-3 * exact[0]


@pytest.mark.parametrize(("estimator", "radius"), [("schwarz", None), ("wendland-taper", 0.3)])
@pytest.mark.parametrize("num_patches", [1, 5])
def test_draws_have_the_moments_that_are_told(setting, estimator, radius, num_patches):
    residuals = experiment.perturbed_residuals(setting, 1, [("dual", 0.1, 0)])
    terms = experiment.terms_for(setting, estimator, radius, residuals)
    keys = jr.split(jr.key(0), 2000)
    samples = jax.jit(jax.vmap(lambda key: terms.norm.sample(key, num_patches)))(keys)
    draws = terms.estimate(0, samples)
    sd = terms.sd(0, num_patches)
    assert abs(draws.mean() - terms.whole(0)) < 4 * sd / np.sqrt(len(draws))
    assert draws.std() == pytest.approx(sd, rel=0.1)


def test_a_taper_over_the_whole_square_answers_all_frequencies_alike(setting):
    np.testing.assert_allclose(experiment.response(setting, "hard-taper", 1.5), 1.0, rtol=1e-9)


@pytest.mark.slow
def test_a_run_leaves_rows_with_all_keys_and_the_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "LEVELS", 3)
    monkeypatch.setattr(experiment, "RADII", (1.5,))
    monkeypatch.setattr(experiment, "SHOWN_RADII", (1.5,))
    monkeypatch.setattr(experiment, "READINGS", ("dual",))
    monkeypatch.setattr(experiment, "REPLICATES", {"quick": 1})
    content = run_experiment(experiment.taper(0, "quick"), tmp_path, seed=0, command="riesz x")
    rows = content["rows"]
    assert len(rows) == 5 * 2 * 3
    assert all(set(row) >= KEYS for row in rows)
    assert {r["radius"] for r in rows if r["estimator"] in ("schwarz", "block")} == {None}
    covered = [r for r in rows if r["estimator"] == "hard-taper"]
    # Two corners of the square belong to a cell without free nodes.
    np.testing.assert_allclose([r["coverage"] for r in covered], 1 - 2 / 17**2)
    np.testing.assert_allclose([r["bias"] / r["exact"] for r in covered], 0.0, atol=1e-9)
    assert {p.name for p in tmp_path.iterdir()} == {
        *("results.json", "table.md", "frequency.csv", "minipatch.png", "frequency.png"),
        *("error.png", "relative_error.png", "coverage.png", "bias_and_sd.png"),
    }
