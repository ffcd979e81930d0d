"""The folder beside a run folder in which a fit lives until it is finished.

It holds the checkpoint, and the run folder while that is written. A fit that is killed leaves it
behind; one that ends well removes it.
"""

import shutil
from contextlib import suppress
from pathlib import Path

from riesz.errors import RieszError

CHECKPOINT = "checkpoint"
RUN = "run"


def unfinished_of(folder: Path) -> Path:
    """Its name, not much longer than that of the run, since names have a largest size."""
    return folder.with_name(f"{folder.name[:200]}.unfinished")


def checkpoint_of(folder: Path) -> Path:
    return unfinished_of(folder.resolve()) / CHECKPOINT


def partial_of(folder: Path) -> Path:
    """Where a run folder is written before it takes its name."""
    return unfinished_of(folder) / RUN


def check_none_unfinished(folder: Path) -> None:
    """Raise where a fit that was stopped could go on."""
    checkpoint = checkpoint_of(folder)
    if checkpoint.exists():
        raise RieszError(
            f"an unfinished fit of {folder} is in {checkpoint.parent}: add --resume to go on with "
            "it, or remove that folder to start from the beginning."
        )


def clear(folder: Path) -> None:
    """Remove all that fits leave beside a run folder, and nothing else."""
    beside = unfinished_of(folder)
    shutil.rmtree(beside / RUN, ignore_errors=True)
    (beside / CHECKPOINT).unlink(missing_ok=True)
    with suppress(OSError):
        beside.rmdir()
