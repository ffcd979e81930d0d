"""The experiment `blind`: rows that shares have left, new ones for what is missing, and tables."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from riesz.io.store.files import write_bytes
from riesz.io.store.results import Row
from riesz_paper.experiments.blind.breaks import LEAST_MOVED, LEAST_SEEN
from riesz_paper.experiments.blind.judge import FIT_SECONDS, MEAN_OFF, SD_OFF
from riesz_paper.experiments.blind.reference import SECONDS
from riesz_paper.experiments.blind.share import done_row, share_of
from riesz_paper.experiments.blind.tables import spoken, summarise
from riesz_paper.running.task import Experiment, Task

PROBLEMS = {"smoke": 2, "quick": 8, "full": 300}
TABLES = "tables.md"


def blind(
    seed: int, mode: str, out: Path, problems: int | None = None, part: str | None = None
) -> Experiment:
    """One row a problem, in files of `out` too: what is there is not done again."""
    count = PROBLEMS[mode] if problems is None else problems
    tasks = [
        Task({"problem": number, "seed": seed}, partial(done_row, out, seed, number), apart=True)
        for number in share_of(part, count)
    ]
    config = {
        "problems": count,
        "part": part,
        "fit_seconds": FIT_SECONDS,
        "reference_seconds": SECONDS,
        "mean_off": MEAN_OFF,
        "sd_off": SD_OFF,
        "least_moved": LEAST_MOVED,
        "least_seen": LEAST_SEEN,
    }
    return Experiment("blind", config, tasks, summarise, draw)


def draw(rows: Sequence[Row], out: Path) -> None:
    write_bytes(out / TABLES, f"{spoken(summarise(rows))}\n".encode())
