"""Tasks of an experiment in several processes, each on processors of its own.

A process builds the experiment for itself, since compiled functions cannot be sent, and takes over
whole groups of tasks that differ in their replicate alone: these share what is compiled.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence

import jax

from riesz.errors import RieszError
from riesz.io.store.results import Row
from riesz_many import scheduler
from riesz_many.scheduler import Pool, run_tasks
from riesz_paper.running.task import Experiment, Task

Build = Callable[[], Experiment]
"""Makes the experiment again; a function that can be sent to another process."""

_built: dict[str, Task] = {}
_groups: list[str] = []
"""Of this process, which serves one experiment: its tasks, and the group that it is at."""


def rows_of_workers(build: Build, pending: Sequence[Task], num_workers: int) -> Iterator[Row]:
    """The row of each pending task, as they come; an error in one ends them all."""
    sent = [
        scheduler.Task((build, dict(task.identity), str(number)), str(number))
        for number, group in enumerate(groups_of(pending))
        for task in group
    ]
    for outcome in run_tasks(row_of, sent, Pool(num_workers), split=False):
        if outcome.error is not None:
            told = "".join(traceback.format_exception(outcome.error))
            raise RieszError(f"a worker failed:\n{told}")
        yield outcome.value


def groups_of(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks of one group, or that differ in their replicate only and do not ask to be apart."""
    groups: dict[tuple, list[Task]] = {}
    for task in tasks:
        told = task.identity.items()
        rest = tuple((k, v) for k, v in told if task.apart or k != "replicate")
        groups.setdefault(task.group or rest, []).append(task)
    return list(groups.values())


def row_of(build: Build, identity: Row, group: str) -> Row:
    """One task, in the process that it was given to."""
    if not _built:
        _built.update({repr(dict(task.identity)): task for task in build().tasks})
    if _groups and _groups[-1] != group:
        # Other groups compile for themselves, and a process can hold only so many programs: after
        # some hours there would be no room for another one.
        jax.clear_caches()
    _groups[:] = [group]
    return {**identity, **_built[repr(identity)].run()}
