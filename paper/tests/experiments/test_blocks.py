"""The problem of blocks is the one described, and methods are held against NUTS as they should."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz_paper.experiments.blocks.chains import Chain, side_by_side
from riesz_paper.experiments.blocks.experiment import (
    ENGINES,
    NO_CHAINS,
    NOT_CHECKED,
    SIZES,
    approximate_row,
    blocks,
    draw_moments,
    errors,
    sampler_row,
    summarise,
)
from riesz_paper.experiments.blocks.problem import (
    NOISE_SD,
    PRIOR_SD,
    measured,
    posed,
    sensors,
    true_diffusivity,
)


@pytest.fixture(scope="module")
def coarse():
    """On 9 x 9 nodes."""
    return posed(1, np.zeros(169))


def test_sensors_form_the_grid_of_fourteenths():
    points = sensors()
    assert points.shape == (169, 2)
    np.testing.assert_allclose(points[0], [1 / 14, 1 / 14])
    np.testing.assert_allclose(points[14 - 1], [1 / 14, 2 / 14])


def test_the_truth_has_a_soft_and_a_hard_square():
    values = true_diffusivity()
    assert (values == 0.1).sum() == (values == 10.0).sum() == 4
    assert (values == 1.0).sum() == 56
    assert (values[1:3, 1:3] == 0.1).all()  # rows and columns 2 and 3, from 1 on
    assert (values[5:7, 5:7] == 10.0).all()


def test_a_coordinate_is_the_log_diffusivity_of_its_block_in_prior_sd(coarse):
    """Columns go with x and rows with y: the ninth unknown is that of row 2, column 1."""
    weights = coarse.z(jnp.zeros(64).at[8].set(1.5))["a"].weights
    np.testing.assert_allclose(weights[8], np.exp(1.5 * PRIOR_SD))
    mesh = coarse.forward.space.mesh
    centres = mesh.nodes[mesh.cells[mesh.regions["row 2 column 1"]]].mean(axis=1)
    assert ((centres > [0, 1 / 8]) & (centres < [1 / 8, 2 / 8])).all()
    assert coarse.latents.coordinate_names()[8] == "a[row 2 column 1]"


def test_data_scatter_about_the_true_state_by_the_noise(coarse):
    truth = jnp.asarray(np.log(true_diffusivity()).ravel() / PRIOR_SD)
    clean = np.asarray(coarse.operator @ coarse.state(truth))
    residuals = (measured(coarse, 0) - clean) / NOISE_SD
    assert abs(residuals.mean()) < 3 / np.sqrt(169)
    assert abs(residuals.std() - 1) < 3 / np.sqrt(2 * 169)
    np.testing.assert_array_equal(measured(coarse, 0) == measured(coarse, 1), False)


def row(method, mean, sd, **told):
    nothing = {**NO_CHAINS, **NOT_CHECKED, "cpu_seconds": 1.0}
    return {"method": method, **nothing, "log_mean": mean, "log_sd": sd, **told}


def test_errors_are_in_standard_deviations_of_nuts():
    exact = row("nuts", [0.0, 1.0], [1.0, 2.0], seconds=1.0, effective_draws=9.0)
    exact |= {"r_hat": 1.0, "divergences": 0}
    other = row("laplace", [0.5, 0.0], [1.0, 1.0], k_hat=0.9, weighed_draws=3.0)
    (found,) = errors([exact, other])
    assert found["mean_error_sd_worst"] == found["mean_error_sd_median"] == 0.5
    assert (found["sd_ratio_low"], found["sd_ratio_high"]) == (0.5, 1.0)
    assert summarise([exact, other])["laplace: k hat"] == 0.9
    assert errors([other]) == []  # nothing to be held against


def test_chains_are_told_by_their_worst_unknown(tmp_path):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 400, 64))
    draws[:, :, 5] = np.repeat(draws[:, ::10, 5], 10, axis=1)  # each value ten times
    chains = [
        Chain(one, np.full(400, 7), np.zeros(400, bool), num_gradients=3000, cpu_seconds=2.0)
        for one in draws
    ]
    told = {"method": "nuts", **sampler_row(chains, 3.0)}
    assert told["effective_draws"] < 200 < told["effective_draws_median"]
    assert (told["num_gradients"], told["cpu_seconds"], told["cpu_seconds_chain"]) == (
        6000,
        4.0,
        2.0,
    )
    np.testing.assert_allclose(told["log_sd"], PRIOR_SD, rtol=0.3)
    draw_moments([told], tmp_path / "blocks.png")
    assert (tmp_path / "blocks.png").stat().st_size > 10_000


def test_nuts_comes_first_and_all_methods_see_one_mesh():
    tasks = blocks(0, "full").tasks
    methods = [task.identity["method"] for task in tasks]
    assert methods == ["nuts", "sample", "laplace", "variational", "emulate"]
    assert {task.identity["nodes"] for task in tasks} == {33**2}


def numbered(number):
    """At the top of a module, so that other processes can make it too."""
    nothing = np.zeros(0)
    return Chain(np.full((1, 1), float(number)), nothing.astype(int), nothing > 0, number, 0.0)


def test_chains_of_other_processes_come_in_their_order():
    assert [chain.num_gradients for chain in side_by_side(numbered, 2)] == [0, 1]


@pytest.mark.slow
def test_approximations_are_checked_by_exact_solves():
    row = approximate_row(ENGINES["laplace"], 0, SIZES["smoke"])
    assert np.isfinite(row["k_hat"])
    assert row["weighed_draws"] > 0
