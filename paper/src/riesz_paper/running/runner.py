"""Running an experiment: tasks one by one with a progress bar, kept as they finish.

An experiment is a list of tasks, each of which gives one flat row. The rows so far are written when
a run stops, and about every second while it goes on, so that an interrupted run can go on where it
stopped: quick tasks are not held up by thousands, and no long one is lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from riesz.errors import RieszError
from riesz.io.store.files import make_folder, replacing
from riesz.io.store.results import Row, markdown_table, read_results, results, write_results
from riesz_paper.running.task import Experiment, Task
from riesz_paper.running.workers import Build, rows_of_workers

RESULTS_FILE = "results.json"
TABLE_FILE = "table.md"
SECONDS_BETWEEN_WRITES = 1.0
PLACE = ("commit", "machine", "versions")


def run_experiment(
    experiment: Experiment,
    out: Path,
    *,
    seed: int,
    resume: bool = False,
    command: str,
    workers: tuple[Build, int] | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Run all tasks (with `resume`, those without a row yet) and write the result files.

    `workers` is how processes build the experiment for themselves, and how many of them.
    """
    file = make_folder(out) / RESULTS_FILE
    earlier = earlier_run(file, experiment, seed) if resume else None
    rows = [] if earlier is None else list(earlier["rows"])
    parts = [] if earlier is None else parts_of(earlier)
    done = [identity_of(row, experiment.tasks[0]) for row in rows]
    pending = [task for task in experiment.tasks if dict(task.identity) not in done]

    def so_far() -> dict[str, Any]:
        found = results(command, experiment.config, seed, rows, experiment.summarise(rows))
        return with_parts(found, parts)

    with progress_bar(quiet=quiet) as progress:
        bar = progress.add_task(experiment.name, total=len(experiment.tasks), completed=len(rows))
        written = perf_counter()
        try:
            for row in new_rows(pending, workers):
                rows.append(row)
                progress.advance(bar)
                if perf_counter() - written > SECONDS_BETWEEN_WRITES:
                    write_results(file, so_far())
                    written = perf_counter()
        finally:
            write_results(file, so_far())
        progress.update(bar, description=f"{experiment.name}: figures")
        rows = in_order(rows, experiment.tasks)
        experiment.draw(rows, out)
    with replacing(out / TABLE_FILE) as table:
        table.write(markdown_table(rows).encode())
    write_results(file, content := so_far())
    return content


def new_rows(pending: Sequence[Task], workers: tuple[Build, int] | None) -> Iterator[Row]:
    if workers is not None and pending:
        build, num_workers = workers
        yield from rows_of_workers(build, pending, num_workers)
        return
    for task in pending:
        yield {**task.identity, **task.run()}


def in_order(rows: Sequence[Row], tasks: Sequence[Task]) -> list[Row]:
    """As the tasks are listed, whatever order they finished in."""
    places = {repr(dict(task.identity)): place for place, task in enumerate(tasks)}
    return sorted(rows, key=lambda row: places.get(repr(identity_of(row, tasks[0])), len(places)))


def progress_bar(*, quiet: bool = False) -> Progress:
    """A bar on the terminal's error stream, so that output can be piped."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=quiet,
    )


def identity_of(row: Row, example: Task) -> dict[str, Any]:
    return {key: row.get(key) for key in example.identity}


def earlier_run(file: Path, experiment: Experiment, seed: int) -> dict[str, Any] | None:
    """An interrupted run of the same experiment; rows of another one are never mixed in."""
    if not file.exists():
        return None
    earlier = read_results(file)
    for name, now in (("config", dict(experiment.config)), ("seed", seed)):
        if earlier[name] != now:
            raise RieszError(
                f"{file} was made with {name} {earlier[name]}, not {now}: choose another --out, "
                "or leave --resume out to start again."
            )
    return earlier


def parts_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where the rows of a result file were made, in order: one part for each place and commit."""
    before = list(content.get("parts", []))
    new = len(content["rows"]) - sum(part["rows"] for part in before)
    here = {key: content.get(key) for key in PLACE}
    if before and {key: before[-1][key] for key in PLACE} == here:
        return [*before[:-1], {**before[-1], "rows": before[-1]["rows"] + new}]
    return [*before, {"rows": new, **here}] if new else before


def with_parts(content: dict[str, Any], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The content with its parts told, where rows come from several places or commits."""
    parts = parts_of({**content, "parts": before})
    if len(parts) == 1:
        return {**content, **{key: parts[0][key] for key in PLACE}}
    return {**content, "parts": parts} if parts else content
