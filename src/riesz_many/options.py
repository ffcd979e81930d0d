"""What `riesz fit-many` takes: options are made from it, and functions here pass it on."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from riesz.cli import DENSITY, ENGINE, Check, Option, Seed, TimeLimit
from riesz.errors import RieszError
from riesz_many.scheduler import Pool


@dataclass(frozen=True)
class FitSettings:
    """What all fits have in common: that of `riesz fit`."""

    engine: str | None = None
    density: str | None = None
    check: bool | None = None
    time_limit: float | None = None


def part_of(text: str) -> tuple[int, int]:
    """From k/N."""
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise RieszError(f"{text!r} is no share: write 3/20 for the third of twenty")


@dataclass(frozen=True)
class Campaign:
    """Fits of all problem files of a folder or a table, one run folder each.

    `settles` is for one process without Dask, and says whether it may be made like that of
    `riesz fit`.
    """

    source: Annotated[
        Path,
        Option(
            "A folder of problem files, or a CSV table with a column problem, and perhaps name "
            "and seed.",
            "FOLDER|TABLE",
        ),
    ]
    runs: Annotated[Path, Option("The folder for all runs.", "--out", "RUNS")]
    _: KW_ONLY
    jobs: Annotated[
        int | None, Ge(1), Option("Processes, or jobs of a queue [default: processors].")
    ] = None
    cluster: Annotated[str | None, Option("A Dask scheduler (tls://...), slurm or pbs.")] = None
    engine: Annotated[str | None, ENGINE] = None
    density: Annotated[str | None, DENSITY] = None
    seed: Seed = 0
    check: Check = None
    time_limit: TimeLimit = None
    attempts: Annotated[
        int, Ge(1), Option("A fit whose process dies so often is given up as failed.")
    ] = 3
    reports: Annotated[bool, Option("Write the report of each run.")] = True
    refit: Annotated[bool, Option("Replace runs whose files or settings have changed.")] = False
    part: Annotated[
        tuple[int, int] | None,
        Option("Only the k-th of N shares, in one process.", None, "k/N", tuple, part_of),
    ] = None
    settles: bool = True

    @property
    def settings(self) -> FitSettings:
        return FitSettings(self.engine, self.density, self.check, self.time_limit)

    @property
    def pool(self) -> Pool:
        return Pool(self.jobs, self.cluster)

    @property
    def is_alone(self) -> bool:
        return self.part is not None or (self.cluster is None and self.pool.num_here == 1)
