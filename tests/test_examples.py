"""The examples run, and what they print is right."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "num_steps", "limit"), [("plug_in", 300, 0.2), ("plug_in_flax", 300, 0.2)]
)
def test_a_network_trained_by_the_penalty_comes_close_to_exact_solves(name, num_steps, limit):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    error = module.main(num_steps)
    assert error < limit, f"relative energy error {error:.3f} after {num_steps} steps"
