"""What processes beside each other share: processors, and threads of linear algebra."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def threads_limited(num_workers: int, threads: int | None = None) -> Iterator[None]:
    """Processes that start in here give linear algebra no more threads than their processors.

    Its threads are counted when it is first imported, before a process can choose processors; on
    fewer ones they would wait for each other, and use up the time.
    """
    count = str(threads or max(1, num_processors() // num_workers))
    before = {name: os.environ.get(name) for name in THREAD_COUNTS}
    os.environ.update(dict.fromkeys(THREAD_COUNTS, count))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
