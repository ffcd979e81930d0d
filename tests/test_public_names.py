"""`import riesz` is light, harmless, and finds every public name."""

import subprocess
import sys

import pytest

import riesz


@pytest.mark.parametrize("name", riesz.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    assert getattr(riesz, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'solver'"):
        _ = riesz.solver


def test_importing_loads_nothing_heavy_and_leaves_jax_alone():
    program = (
        "import sys, riesz\n"
        "assert not {'jax', 'matplotlib', 'scipy'} & set(sys.modules), 'heavy import'\n"
        "riesz.solve, riesz.mesh_from_polygon, riesz.io\n"
        "import jax\n"
        "assert not jax.config.jax_enable_x64, 'x64 was switched on'\n"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
