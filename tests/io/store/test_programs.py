"""Compiled programs are kept where the user's cache is, up to a size, unless told not to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from riesz.io.store.programs import cache_folder, forget_oldest

COMPILED = """
import jax, jax.monitoring, jax.numpy as jnp
import riesz as rz
hits = []
jax.monitoring.register_event_listener(
    lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None
)
kept = rz.io.keep_programs()
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(7))
print(kept, len(hits))
"""


def answer(folder: str) -> list[str]:
    told = os.environ | {"RIESZ_CACHE": folder, "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-c", COMPILED]
    done = subprocess.run(words, env=told, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_second_process_finds_what_the_first_compiled(tmp_path):
    where, hits = answer(str(tmp_path / "programs"))
    assert (where, hits) == (str(tmp_path / "programs"), "0")
    assert int(answer(str(tmp_path / "programs"))[1]) > 0


def test_damaged_entries_are_compiled_again(tmp_path):
    answer(str(tmp_path))
    entries = [path for path in tmp_path.iterdir() if path.stat().st_size]
    for path in entries:
        path.write_bytes(path.read_bytes()[:20])
    assert answer(str(tmp_path)) == [str(tmp_path), "0"]


def test_it_can_be_switched_off_and_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("RIESZ_CACHE", "off")
    assert cache_folder() is None
    monkeypatch.setenv("RIESZ_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("RIESZ_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "riesz" / "programs"


@pytest.mark.parametrize(("most", "left"), [(4000, 4), (3999, 1), (2100, 1)])
def test_the_oldest_go_until_half_is_free(tmp_path: Path, most, left):
    for age in range(4):
        path = tmp_path / f"{age}"
        path.write_bytes(bytes(1000))
        os.utime(path, (age, age))
    forget_oldest(tmp_path, most)
    assert sorted(p.name for p in tmp_path.iterdir()) == [str(n) for n in range(4 - left, 4)]
