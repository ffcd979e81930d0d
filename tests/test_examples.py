"""The examples run, and what they print is right."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plug_in", "plug_in_flax"])
def test_a_network_trained_by_the_penalty_comes_close_to_exact_solves(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    error = module.main(200, levels=2)
    assert error < 0.2, f"relative energy error {error:.3f}"
