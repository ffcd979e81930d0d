"""Pictures of posteriors show what the numbers say."""

import numpy as np
import pytest
from tests.linear_gaussian import TRUTH, exact_posterior, linear_problem

from riesz.errors import RieszError
from riesz.plot import new_figure, save_figure
from riesz.plot.posterior import draw_data_fit, draw_history, draw_mean_and_sd, pairs_figure
from riesz.prediction.predict import predict, predict_data


def test_maps_data_and_curves_are_drawn(tmp_path):
    posterior, problem = exact_posterior(), linear_problem()
    figure, axes = new_figure(4)
    state = predict(posterior, "u", num_draws=20)
    draw_mean_and_sd(axes[0], axes[1], problem.forward.space.mesh, state, label="head")
    draw_data_fit(axes[2], problem.observations.values, predict_data(posterior, num_draws=20))
    draw_history(axes[3], posterior.history)
    assert len(axes[3].lines) == 2
    assert axes[3].get_yscale() == "symlog"  # the divergence starts at zero
    drawn = sum(len(bars.lines[0].get_xdata()) for bars in axes[2].containers)
    assert drawn == problem.observations.num_sensors
    save_figure(tmp_path / "figure.png", figure)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_pairs_mark_the_truth_in_every_panel():
    figure = pairs_figure(exact_posterior(), truth={"w": TRUTH}, num_draws=50)
    panels = figure.axes
    assert len(panels) == 9
    assert not panels[1].axison  # above the diagonal
    np.testing.assert_allclose(panels[3].lines[-1].get_xdata(), TRUTH[:1])
    np.testing.assert_allclose(panels[3].lines[-1].get_ydata(), TRUTH[1:2])
    assert panels[6].get_xlabel() == "w[0]"
    assert panels[6].get_ylabel() == "w[2]"


def test_a_history_without_curves_and_pairs_of_nothing_are_refused():
    _, (axes,) = new_figure()
    with pytest.raises(RieszError, match="no curves at all"):
        draw_history(axes, {"r_hat": np.zeros((2, 2))})
    with pytest.raises(RieszError, match="no curves \\['loss'\\]: it holds \\['kl', 'misfit'\\]"):
        draw_history(axes, exact_posterior().history, ["loss"])
    with pytest.raises(RieszError, match="0 numbers to pair"):
        pairs_figure(exact_posterior(), [])
