"""The field experiment: a surrogate and exact sampling agree on a field, and files say so."""

import json

import pytest

from riesz_paper.experiments.field import experiment
from riesz_paper.running.runner import run_experiment


@pytest.mark.slow  # a minute, most of it compilation
# So short chains may or may not be called converged; the bounds below allow for that.
@pytest.mark.filterwarnings("ignore:mcmc")
def test_a_small_run_leaves_its_files_and_agrees_with_sampling(tmp_path, monkeypatch):
    sizes = experiment.Sizes(2, 2, 12, 1, 50, 100)  # 9 x 9 nodes, two terms
    monkeypatch.setitem(experiment.SIZES, "quick", sizes)
    run_experiment(experiment.field(1, "quick"), tmp_path, seed=1, command="riesz x")
    (row,) = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert row["nodes"] == 81
    assert row["field_mean_error_sd"] < 0.35  # a hundred draws in a chain are few
    assert abs(row["field_sd_ratio"] - 1) < 0.2
    assert (tmp_path / "field.png").stat().st_size > 1000
