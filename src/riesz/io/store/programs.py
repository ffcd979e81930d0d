"""Compiled programs are kept between runs: the same problem, or one of its sizes, compiles no more.

JAX has such a cache; here are its place, its limit and its switch. Several processes may use it at
once: an entry that another is still writing, or that is damaged, counts as not there.
"""

import os
import warnings
from contextlib import suppress
from pathlib import Path

import jax

SWITCH = "RIESZ_CACHE"
"""In the environment: `off`, or another folder."""

MOST_BYTES = 500_000_000
"""The oldest entries go, until half of it is free, when there are more."""

FUSION = "xla_cpu_use_fusion_emitters"
"""What XLA takes a good part of its time for on a processor, to make programs a little faster."""


def cache_folder() -> Path | None:
    """Where programs are kept; None where they are not to be."""
    setting = os.environ.get(SWITCH, "")
    if setting.casefold() in ("off", "0", "no", "false"):
        return None
    if setting:
        return Path(setting).expanduser()
    known = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(known) if known else Path.home() / ".cache") / "riesz" / "programs"


def keep_programs(folder: Path | str | None = None) -> Path | None:
    """Keep what JAX compiles from now on, in `folder` or the user's cache; returns where.

    Nothing is kept, and None returned, where the environment says `RIESZ_CACHE=off`, where JAX was
    told of a cache of its own, or where the folder cannot be written: programs are then compiled
    anew each time, which is slower and no error.
    """
    place = cache_folder() if folder is None else Path(folder)
    known = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if place is None or known:
        return None
    try:
        place.mkdir(parents=True, exist_ok=True)
        forget_oldest(place, MOST_BYTES)
    except OSError:
        return None
    if not os.access(place, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(place))
    # Small ones, too: there are many of them.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # Programs for the host hold its own instructions: those of another machine are compiled anew.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")
    return place


def forget_oldest(folder: Path, most_bytes: int) -> None:
    """Remove the oldest files where all together are larger than they may be."""
    result = []
    for entry in os.scandir(folder):
        with suppress(OSError):  # another process removed it
            about = entry.stat()
            result.append((about.st_mtime, about.st_size, entry.path))
    size = sum(bytes_of for _, bytes_of, _ in result)
    if size <= most_bytes:
        return
    for _, bytes_of, path in sorted(result):
        if size <= most_bytes / 2:
            return
        with suppress(OSError):
            os.unlink(path)
        size -= bytes_of


def compile_quickly() -> None:
    """For what is evaluated a few times: compiling is most of the work."""
    jax.config.update("jax_disable_most_optimizations", True)
    flags = os.environ.get("XLA_FLAGS", "")
    # Read when the first array is made; JAX 0.11 no longer knows it.
    if jax.__version_info__ < (0, 11) and FUSION not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{FUSION}=false".strip()
