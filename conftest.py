"""Every test runs in float64 with shapes checked at run time."""

import gc
import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["RIESZ_CACHE"] = "off"  # what is tested is compiled here, not found in a user's cache

from jaxtyping import install_import_hook

GUESTS = ("riesz_app", "riesz_demo", "riesz_many", "riesz_pumping", "riesz_sharded", "riesz_paper")
install_import_hook(["riesz", *GUESTS], "shape_checks.checked")

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

MOST_MEMORY_MAPS = 48_000
"""Every compiled function keeps some; Linux allows a process 65,530, and XLA crashes beyond."""


def pytest_collection_finish():
    """Tracing makes many small objects: looking for cycles among them took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def same_programs():
    """A command that runs in this process does not change how what follows is compiled: numbers
    are compared bit by bit with those of processes of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("riesz.cli.problem.quick_compiling", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps():
    """Forget what was compiled, once it is much, at the end of a file of tests."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > MOST_MEMORY_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def esrp_folder() -> Path:
    """The wells of the Snake River Plain, which are no part of the project."""
    folder = Path(os.environ.get("RIESZ_DATA", "")).resolve() / "esrp"
    if not os.environ.get("RIESZ_DATA") or not folder.is_dir():
        pytest.skip("needs RIESZ_DATA, a folder with esrp in it: riesz data fetch esrp")
    return folder


@pytest.fixture(scope="session")
def pumping_folder() -> Path:
    """Readings of aquifer tests, which are no part of the project."""
    folder = Path(os.environ.get("RIESZ_DATA", "")).resolve() / "pumping"
    if not os.environ.get("RIESZ_DATA") or not folder.is_dir():
        pytest.skip("needs RIESZ_DATA, a folder with pumping in it: see docs/data.md")
    return folder


@pytest.fixture(scope="session")
def hanford_folder() -> Path:
    """The Hanford Site, which is no part of the project."""
    folder = Path(os.environ.get("RIESZ_DATA", "")).resolve() / "hanford"
    if not os.environ.get("RIESZ_DATA") or not folder.is_dir():
        pytest.skip("needs RIESZ_DATA, a folder with hanford in it: see docs/data.md")
    return folder
