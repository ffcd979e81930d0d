"""Every benchmark, at its smallest sizes: what it writes, and that none is left out."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from riesz.io.store.results import read_results

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "benchmarks", ROOT / "paper" / "benchmarks")
SHARED = {"bench", "field_spread", "simple_maps"}
"""What others import."""

BESIDE = {"dolfinx_solve", "dolfinx_transient", "dolfinx_worker"}
"""What the system's Python runs for others, where that has dolfinx."""

ALONE = {"mesh_parts", "precision"}
"""They force devices, or change modules: not in this process."""

LONG = {
    *("agreement", "auto", "check", "compare_models", "covariates", "emulate_in_time", "first_map"),
    *(
        "latency",
        "many",
        "many_batched",
        "many_unknowns",
        "mesh_error",
        "methods",
        "misfit",
        "next",
        "precision",
        "reduced",
    ),
    *(
        "refinement",
        "sampler",
        "sbc",
        "space",
        "step",
        "aquifer_mesh",
        "aquifer_step",
        "mesh_parts",
        "walks",
    ),
}
"""They are among the slow tests."""

NEEDS_ESRP = {"compare_models", "walks", "aquifer_mesh"}
SCRIPTS = [
    pytest.param(path, marks=[pytest.mark.slow] * (path.stem in LONG), id=path.stem)
    for folder in FOLDERS
    for path in sorted(folder.glob("*.py"))
    if path.stem not in SHARED | BESIDE
]


@pytest.fixture
def like_a_script(monkeypatch):
    """Nothing of this process but what is compiled, and nothing stays."""
    known = set(sys.modules)
    promotion = jax.config.jax_numpy_rank_promotion
    monkeypatch.syspath_prepend(FOLDERS[0])
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", promotion)
    for name in set(sys.modules) - known:
        if (file := getattr(sys.modules[name], "__file__", None)) and Path(file).parent in FOLDERS:
            del sys.modules[name]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.filterwarnings("ignore")  # of figures that mean nothing
@pytest.mark.usefixtures("like_a_script")
def test_a_benchmark_writes_its_rows(script, tmp_path, monkeypatch):
    data = Path(os.environ.get("RIESZ_DATA", "nowhere")).resolve()
    if script.stem in NEEDS_ESRP and not (data / "esrp").is_dir():
        pytest.skip("needs RIESZ_DATA, a folder with esrp in it: riesz data fetch esrp")
    if data.is_dir():
        monkeypatch.setenv("RIESZ_DATA", str(data))
    monkeypatch.chdir(tmp_path)
    words = [str(script), "--smoke", "--out", str(tmp_path / "rows.json")]
    if script.stem in ALONE:
        subprocess.run([sys.executable, *words], check=True)
    else:
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(script), run_name="__main__")
    out = tmp_path / "rows.json"
    found = read_results(out / "results.json" if out.is_dir() else out)
    assert found["rows"]
    assert found["command"].split()[:3] == [
        *("python", script.relative_to(ROOT).as_posix(), "--smoke"),
    ]
