"""Every engine from a problem file to a table: fitted, kept, read again and predicted from."""

import csv
import json
import sys

import numpy as np
import pytest
from tests.small_problem import problem_toml, written

from riesz.case.run.folder import read_run
from riesz.cli.main import main
from riesz.density.relaxed.states import RelaxedStates
from riesz.io import write_mesh
from riesz.mesh.shapes import rectangle
from riesz.posterior.posterior import ExactStates, SurrogateStates

PROBLEM = problem_toml(
    domain={"mesh": "own.vtu", "levels": 2},
    engine={
        "mcmc": {"num_warmup": 10, "num_samples": 10, "num_chains": 2},
        "surrogate": {"width": 4, "features": 4, "patch_nodes": 9, "num_samples": 4}
        | {"rounds": 1, "num_bends": 2, "readout_batches": 2, "refining_draws": 16},
        "relaxed": {"epsilon_rel": 0.5},
    },
)
"""On 8 x 4 cells, with settings that find nothing worth having."""


LINEAR_PROBLEM = problem_toml(
    domain={"mesh": "own.vtu"},
    equation={"diffusion": 1.0, "source": "f"},
    boundary={"boundary": "edge"},
    unknowns={
        "f": {"prior": "gp", "mean": 0.0, "sd": 3.0, "length_scale": 0.5}
        | {"inducing": 6, "learn_scales": True},
        "edge": {"prior": "boundary-gp", "mean": 1.0, "sd": 1.0, "inducing": 6},
    },
    engine={"marginal": {"num_draws": 40, "num_values": 4}},
)


def riesz(monkeypatch, capsys, *words):
    """What the command printed; it must have ended well."""
    monkeypatch.setattr(sys, "argv", ["riesz", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    assert not stop.value.code, captured.err
    return captured


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "states"),
    [
        ("mcmc", ExactStates),
        ("gaussian-vi(surrogate)", SurrogateStates),
        ("mcmc(relaxed)", RelaxedStates),
    ],
)
def test_an_engine_named_on_the_command_line(engine, states, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_mesh(tmp_path / "own.vtu", rectangle((4, 2), upper=(2, 1)))
    written(tmp_path, PROBLEM, "x,y,value\n0.5,0.5,0.6\n1.5,0.25,1.6\n")
    fit = ("fit", "problem.toml", "--out", "run", "--engine", engine, "--json")
    printed = riesz(monkeypatch, capsys, *fit)
    assert f"engine {engine}: it was asked for" in printed.err
    assert json.loads(printed.out.splitlines()[-1])["nodes"] == 45
    assert isinstance(read_run(tmp_path / "run").posterior.states, states)

    def predicted(quantity, stat):
        words = ("--quantity", quantity, "--stat", stat, "--points", "wells.csv", "--draws", "6")
        riesz(monkeypatch, capsys, "predict", "run", *words, "--out", "at.csv")
        header, *rows = csv.reader((tmp_path / "at.csv").read_text().splitlines())
        return header[3:], np.array(rows, float)[:, 3:]  # after those of the table

    names, above = predicted("u", "exceed:0.6")
    assert names == ["u_exceed_0.6"]
    assert ((above >= 0) & (above <= 1)).all()
    names, spread = predicted("a", "sd")
    assert spread[0] == spread[1] > 0  # one number everywhere
    names, flux = predicted("flux", "mean")
    assert names == ["flux_mean_0", "flux_mean_1"]
    assert (flux[:, 0] < 0).all()  # towards the side where u is zero


@pytest.mark.slow
def test_unknowns_are_integrated_out_from_a_problem_file_with_unknown_source_and_boundary(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_mesh(tmp_path / "own.vtu", rectangle((4, 2), upper=(2, 1)))
    written(tmp_path, LINEAR_PROBLEM, "x,y,value\n0.5,0.5,0.6\n1.5,0.25,1.6\n1.0,0.5,1.1\n")
    fit = (
        "fit",
        "problem.toml",
        "--out",
        "run",
        "--engine",
        "laplace",
        "--density",
        "marginal",
        "--json",
    )
    printed = riesz(monkeypatch, capsys, *fit)
    assert "engine laplace(marginal): it was asked for" in printed.err
    words = ("--quantity", "u", "--stat", "mean", "--points", "wells.csv", "--out", "at.csv")
    riesz(monkeypatch, capsys, "predict", "run", *words)
    _, *rows = csv.reader((tmp_path / "at.csv").read_text().splitlines())
    np.testing.assert_allclose(np.array(rows, float)[:, 2], [0.6, 1.6, 1.1], atol=0.15)
