"""What a process that fits chooses for its programs: precision, effort, and how many it holds."""

from contextlib import suppress
from pathlib import Path

import jax

from riesz.io import compile_quickly, keep_programs

MOST_MAPPINGS = 30_000
"""Pieces of memory that a process may have, half of what Linux allows: programs take some each."""

_settled: dict[str, bool] = {}


def settle_process(*, quickly: bool) -> None:
    """Choose for this process what the command `riesz fit` chooses for its own."""
    if "quickly" not in _settled:
        jax.config.update("jax_enable_x64", True)
        keep_programs()
        if quickly:
            compile_quickly()
    elif _settled["quickly"] != quickly:  # on workers of others, which serve all fits
        jax.clear_caches()
        jax.config.update("jax_disable_most_optimizations", quickly)
    _settled["quickly"] = quickly


def forget_programs() -> None:
    """Make room where a process holds nearly as many programs as it can."""
    with suppress(OSError):  # not on macOS and Windows
        if Path("/proc/self/maps").read_bytes().count(b"\n") > MOST_MAPPINGS:
            jax.clear_caches()
