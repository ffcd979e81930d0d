"""Pictures of posteriors show what the numbers say."""

import numpy as np
import pytest
from tests.linear_gaussian import TRUTH, exact_posterior, linear_problem

from riesz.errors import RieszError
from riesz.plot import new_figure, save_figure
from riesz.plot.posterior import draw_mean_and_sd, pairs_figure
from riesz.prediction.predict import predict


def test_maps_of_mean_and_sd_are_drawn(tmp_path):
    posterior, problem = exact_posterior(), linear_problem()
    figure, axes = new_figure(2)
    state = predict(posterior, "u", num_draws=20)
    draw_mean_and_sd(*axes, problem.forward.space.mesh, state, label="head")
    for panel, values in zip(axes, (state.mean, state.sd), strict=True):
        np.testing.assert_allclose(panel.collections[0].get_array(), values)
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


def test_pairs_of_nothing_are_refused():
    with pytest.raises(RieszError, match="0 numbers to pair"):
        pairs_figure(exact_posterior(), [])
