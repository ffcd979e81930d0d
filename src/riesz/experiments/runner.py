"""Running an experiment: tasks one by one with a progress bar, kept as they finish.

An experiment is a list of tasks, each of which gives one flat row. The rows so far are written when
a run stops, and about every second while it goes on, so that an interrupted run can go on where it
stopped: quick tasks are not held up by thousands, and no long one is lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from riesz.errors import RieszError
from riesz.io.results import Row, markdown_table, read_results, results, write_results
from riesz.io.whole_file import replacing

RESULTS_FILE = "results.json"
TABLE_FILE = "table.md"
SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True)
class Task:
    """One replicate: what tells it apart from the others, and how to get its row."""

    identity: Mapping[str, Any]  # part of the row, and enough to find it again
    run: Callable[[], Row]


@dataclass(frozen=True)
class Experiment:
    """Tasks, a summary of their rows, and figures that are drawn at the end."""

    name: str
    config: Mapping[str, Any]
    tasks: Sequence[Task]
    summarise: Callable[[Sequence[Row]], Mapping[str, Any]]
    draw: Callable[[Sequence[Row], Path], None]


def run_experiment(
    experiment: Experiment, out: Path, *, seed: int, resume: bool = False, command: str
) -> dict[str, Any]:
    """Run all tasks (with `resume`, those without a row yet) and write the result files."""
    file = prepared_folder(out) / RESULTS_FILE
    rows = kept_rows(file, experiment, seed) if resume else []
    done = [identity_of(row, experiment.tasks[0]) for row in rows]
    pending = [task for task in experiment.tasks if dict(task.identity) not in done]

    def so_far() -> dict[str, Any]:
        return results(command, experiment.config, seed, rows, experiment.summarise(rows))

    with progress_bar() as progress:
        bar = progress.add_task(experiment.name, total=len(experiment.tasks), completed=len(rows))
        written = perf_counter()
        try:
            for task in pending:
                rows.append({**task.identity, **task.run()})
                progress.advance(bar)
                if perf_counter() - written > SECONDS_BETWEEN_WRITES:
                    write_results(file, so_far())
                    written = perf_counter()
        finally:
            write_results(file, so_far())
        progress.update(bar, description=f"{experiment.name}: figures")
        experiment.draw(rows, out)
    with replacing(out / TABLE_FILE) as table:
        table.write(markdown_table(rows).encode())
    write_results(file, content := so_far())
    return content


def prepared_folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RieszError(f"the folder {out} cannot be made: {error.strerror}.") from None
    return out


def progress_bar() -> Progress:
    """A bar on the terminal's error stream, so that output can be piped."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


def identity_of(row: Row, example: Task) -> dict[str, Any]:
    return {key: row.get(key) for key in example.identity}


def kept_rows(file: Path, experiment: Experiment, seed: int) -> list[Row]:
    """Rows of an interrupted run of the same experiment; another one's are never mixed in."""
    if not file.exists():
        return []
    earlier = read_results(file)
    for name, now in (("config", dict(experiment.config)), ("seed", seed)):
        if earlier[name] != now:
            raise RieszError(
                f"{file} was made with {name} {earlier[name]}, not {now}: choose another --out, "
                "or leave --resume out to start again."
            )
    return list(earlier["rows"])
