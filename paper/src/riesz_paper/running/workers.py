"""Tasks of an experiment in several processes, each on processors of its own.

A process builds the experiment for itself, since compiled functions cannot be sent, and takes over
whole groups of tasks that differ in their replicate alone: these share what is compiled.
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

import jax

from riesz.errors import RieszError
from riesz.io.store.results import Row
from riesz_paper.running.task import Experiment, Task

SECONDS_BETWEEN_CHECKS = 5.0
THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Build = Callable[[], Experiment]
"""Makes the experiment again; a function that can be sent to another process."""


def rows_of_workers(build: Build, pending: Sequence[Task], num_workers: int) -> Iterator[Row]:
    """The row of each pending task, as they come; an error in one ends them all."""
    context = multiprocessing.get_context("spawn")
    groups, done = context.Queue(), context.Queue()
    for group in groups_of(pending):
        groups.put([dict(task.identity) for task in group])
    for _ in range(num_workers):
        groups.put(None)
    workers = [
        context.Process(target=work, args=(build, k, num_workers, groups, done), daemon=True)
        for k in range(num_workers)
    ]
    with threads_limited(num_workers):
        for worker in workers:
            worker.start()
    try:
        for _ in pending:
            row, failure = next_result(done, workers)
            if failure is not None:
                raise RieszError(f"a worker failed:\n{failure}")
            yield row
    finally:
        for worker in workers:
            worker.terminate()


@contextmanager
def threads_limited(num_workers: int) -> Iterator[None]:
    """Processes that start in here give linear algebra no more threads than their processors.

    Its threads are counted when it is first imported, before a process can choose processors; on
    fewer ones they would wait for each other, and use up the time.
    """
    count = str(max(1, num_processors() // num_workers))
    before = {name: os.environ.get(name) for name in THREAD_COUNTS}
    os.environ.update(dict.fromkeys(THREAD_COUNTS, count))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def groups_of(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks of one group, or that differ in their replicate only and do not ask to be apart."""
    groups: dict[tuple, list[Task]] = {}
    for task in tasks:
        told = task.identity.items()
        rest = tuple((k, v) for k, v in told if task.apart or k != "replicate")
        groups.setdefault(task.group or rest, []).append(task)
    return list(groups.values())


def next_result(done: Queue, workers: Sequence[Any]) -> tuple[Row, str | None]:
    """What comes next; a worker that died silently (out of memory, say) is not waited for."""
    while True:
        try:
            return done.get(timeout=SECONDS_BETWEEN_CHECKS)
        except Empty:
            dead = [w.exitcode for w in workers if w.exitcode not in (None, 0)]
            if dead:
                return {}, f"it stopped with exit status {dead[0]}"


def work(build: Build, number: int, num_workers: int, groups: Queue, done: Queue) -> None:
    """Run groups of tasks until none is left."""
    pin(number, num_workers)
    try:
        tasks = {repr(dict(task.identity)): task for task in build().tasks}
        while (group := groups.get()) is not None:
            for identity in group:
                done.put(({**identity, **tasks[repr(identity)].run()}, None))
            # Other groups compile for themselves, and a process can hold only so many programs:
            # after some hours there would be no room for another one.
            jax.clear_caches()
    except Exception:
        done.put(({}, traceback.format_exc()))


def num_processors() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pin(number: int, num_workers: int) -> None:
    """Keep to a share of the processors, so that times mean the same in each process."""
    if not hasattr(os, "sched_setaffinity"):  # not on macOS and Windows
        return
    processors = sorted(os.sched_getaffinity(0))
    share = max(1, len(processors) // num_workers)
    first = number * share % len(processors)
    os.sched_setaffinity(0, processors[first : first + share])
