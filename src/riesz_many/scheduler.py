"""The one door to other processes: Dask Distributed, here, on a given scheduler, or by a queue.

Whoever reaches a scheduler or a worker can run code as the person who fits: they speak TLS, and
know each other by credentials that are made for one run. A process gets one task at a time. Tasks
of one group share what is compiled: a process stays with a group as long as there is something left
of it. Those beside each other share processors, and threads of linear algebra.
"""

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from os.path import expanduser, expandvars
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, NamedTuple

from riesz.errors import RieszError

QUEUES = {"slurm": "SLURMCluster", "pbs": "PBSCluster"}
"""Classes of dask-jobqueue, which are told of a cluster by their own configuration file."""

PLAIN = "RIESZ_PLAIN_CLUSTER"
"""An environment variable: set to 1, schedulers are spoken to without TLS."""

SETTINGS = {
    # A fit may keep its process from answering for longer than any limit.
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.daemon": True,
    # Pages that any user of the machine could read.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}

SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_TO_ANSWER, SECONDS_TO_START = 20.0, 300.0
MOST_DEATHS = 1000
"""After which a task that always takes its process down is given up here too."""

_busy = threading.Lock()
_pinned: set[int] = set()

Function = str | Callable[..., Any]
"""Something that can be sent; as `module:name` it is imported only where it runs."""

THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Pool:
    """Where tasks run: so many processes here, or those of a cluster.

    `cluster` is the address of a scheduler (tls://host:8786), or `slurm` or `pbs`, which are asked
    for `jobs` jobs.
    """

    jobs: int | None = None
    cluster: str | None = None
    threads: int | None = None  # of linear algebra, a process; by default a share of all

    @property
    def num_here(self) -> int:
        return self.jobs or num_processors()


class Task(NamedTuple):
    arguments: tuple[Any, ...]
    group: str = ""


class TaskOutcome(NamedTuple):
    """What came of a task, by its place among all."""

    place: int
    value: Any = None
    error: BaseException | None = None


def dask_module(name: str) -> Any:
    """A module of Dask, or what to install."""
    try:
        return import_module(name)
    except ImportError:
        raise RieszError(
            f"several processes need {name.partition('.')[0].replace('_', '-')}, which is not "
            "installed: pip install '.[cluster]' in a clone of the repository, or work in one "
            "process by --jobs 1."
        ) from None


@contextmanager
def connect(pool: Pool) -> Iterator[Any]:
    """A client of Dask, with the processes that belong to it."""
    distributed = dask_module("distributed")
    for logger in ("distributed", "asyncio", "tornado"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    if pool.cluster is None:
        with here(distributed, pool) as cluster, distributed.Client(cluster) as client:
            yield client
    elif pool.cluster in QUEUES:
        with queue(pool.cluster) as cluster, distributed.Client(cluster) as client:
            cluster.scale(jobs=pool.jobs or 1)
            yield client
    else:
        check_address(pool.cluster)
        try:
            client = distributed.Client(pool.cluster, timeout=SECONDS_TO_ANSWER)
        except (AssertionError, OSError, TypeError, ValueError, TimeoutError) as error:
            reason = str(error) or "it hangs up"  # on credentials that are not its own
            raise RieszError(
                f"no scheduler answers at {pool.cluster!r} ({reason}): give an address such as "
                f"tls://host:8786, or one of {', '.join(QUEUES)}. Certificates for TLS are those "
                "of Dask's own configuration, distributed.comm.tls."
            ) from None
        with client:
            yield client


def check_address(address: str) -> None:
    """Refuse a scheduler that takes orders from everybody, unless the user wants it."""
    if not address.startswith(("tls://", "wss://")) and os.environ.get(PLAIN) != "1":
        raise RieszError(
            f"{address!r} is no address with TLS, and whoever reaches a scheduler without it can "
            "run code as you: start scheduler and workers with certificates and give "
            f"tls://host:8786, or one of {', '.join(QUEUES)}; or set {PLAIN}=1 in a network that "
            "is yours alone."
        )


def credentials(distributed: Any) -> Any:
    """A certificate and a key for one run, in memory."""
    dask_module("cryptography")
    return distributed.Security.temporary()


@contextmanager
def queue(name: str) -> Iterator[Any]:
    """Jobs of a queue, as the configuration of dask-jobqueue describes them.

    Their key is a file that only its owner can read, in a folder that all machines share.
    """
    config = dask_module("dask.config")
    shared = config.get(f"jobqueue.{name}.shared-temp-directory", None) or "~"
    made = getattr(dask_module("dask_jobqueue"), QUEUES[name])
    security = credentials(dask_module("distributed"))
    options = {"dashboard": False, "dashboard_address": ":0"}
    with (
        config.set(SETTINGS),
        TemporaryDirectory(prefix=".riesz-", dir=expandvars(expanduser(shared))) as folder,
    ):
        for part in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
            file = Path(folder, part)
            file.touch(mode=0o600)
            file.write_text(getattr(security, part))
            setattr(security, part, str(file))
        try:
            cluster = made(security=security, scheduler_options=options)
        except ValueError as error:
            raise RieszError(
                f"what a job of {name} is stands nowhere ({str(error).splitlines()[0]}): write it "
                "into ~/.config/dask/jobqueue.yaml, as jobqueue.dask.org shows."
            ) from None
        with cluster:
            yield cluster


@contextmanager
def here(distributed: Any, pool: Pool) -> Iterator[Any]:
    """Processes on this machine; one that dies is started again."""
    with (
        dask_module("dask.config").set(SETTINGS),
        limit_threads(pool.num_here, pool.threads),
        # Without processes at first: one that is killed while it starts would take all with it.
        distributed.LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            memory_limit=0,  # what it counts is not what a fit needs
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # that of others is taken
            silence_logs=logging.CRITICAL + 1,
            security=credentials(distributed),
        ) as cluster,
    ):
        yield cluster


def start_missing(client: Any, pool: Pool) -> None:
    """Start the processes of this machine that are not there, or ended and were given up."""
    if pool.cluster is not None or num_workers(client) >= pool.num_here:
        return
    own = client.cluster
    for name, one in list(own.workers.items()):
        if one.status.name in ("failed", "closed"):
            own.workers.pop(name, None)
    own.scale(pool.num_here)


def call_here(function: Function, arguments: tuple[Any, ...], share_of: int) -> Any:
    """Run a task in this process, on its share of the processors."""
    worker = dask_module("distributed").get_worker()
    if share_of and isinstance(worker.name, int) and not _pinned:
        pin(worker.name, share_of)
        _pinned.add(worker.name)
    with _busy:  # workers with several threads too have one fit at a time
        return import_function(function)(*arguments)


def import_function(function: Function) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)


def run_tasks(
    function: Function, tasks: Sequence[Task], pool: Pool, *, split: bool = True
) -> Generator[TaskOutcome]:
    """The outcome of each task, as they come.

    A task whose process dies is run again in another. Where `split`, several processes may work on
    one group when there are no others left.
    """
    if not tasks:
        return
    with connect(pool) as client:
        yield from distribute(client, function, tasks, pool, split=split)


def distribute(
    client: Any, function: Function, tasks: Sequence[Task], pool: Pool, *, split: bool
) -> Iterator[TaskOutcome]:
    groups, result = Groups(tasks, split=split), SimpleQueue()
    running: dict[Any, tuple[int, str]] = {}
    deaths = Counter[int]()
    wait_for_one(client, pool)
    share_of = pool.num_here if pool.cluster is None else 0

    def send(place: int, group: str) -> None:
        # Not to a process by its address: a task waits for ever for one that is gone. The one that
        # has just become idle is the only one without a task, and gets the next of its group.
        future = client.submit(call_here, function, tasks[place].arguments, share_of, pure=False)
        running[future] = place, group
        future.add_done_callback(result.put)

    while True:
        while len(running) < max(1, num_workers(client)) and (new := groups.next()) is not None:
            send(*new)
        if not running:
            return
        try:
            future = result.get(timeout=SECONDS_BETWEEN_LOOKS)
        except Empty:
            look_after(client, pool, running)
            continue
        place, group = running.pop(future)
        if future.status in ("cancelled", "lost"):
            raise error_of_lost_worker(client)
        error = future.exception() if future.status == "error" else None
        if type(error).__name__ == "KilledWorker" and deaths[place] < MOST_DEATHS:
            deaths[place] += 1
            send(place, group)
            continue
        value = None if error is not None else future.result()
        future.release()
        if (more := groups.next(group)) is not None:
            send(*more)
        yield TaskOutcome(place, value, error)


class Groups:
    """Tasks that are left, by the programs that they share."""

    def __init__(self, tasks: Sequence[Task], *, split: bool):
        self.left: dict[str, deque[int]] = {}
        self.split = split
        self.at_work: dict[str, int] = {}
        for place, task in enumerate(tasks):
            self.left.setdefault(task.group, deque()).append(place)

    def next(self, own: str | None = None) -> tuple[int, str] | None:
        """A task for a process, of its own group where there is one left."""
        if own is not None and self.left[own]:
            return self.left[own].popleft(), own
        if own is not None:
            self.at_work[own] -= 1
        free = [one for one, left in self.left.items() if left]
        if not self.split:
            free = [one for one in free if not self.at_work.get(one)]
        if not free:
            return None
        # Where nobody is yet; else where most is left.
        group = min(free, key=lambda one: (self.at_work.get(one, 0), -len(self.left[one])))
        self.at_work[group] = self.at_work.get(group, 0) + 1
        return self.left[group].popleft(), group


def num_workers(client: Any) -> int:
    return len(client.nthreads())


def wait_for_one(client: Any, pool: Pool) -> None:
    """Until a process is there; a queue may take its time, and only a user's patience ends that."""
    start = monotonic()
    while not num_workers(client):
        start_missing(client, pool)
        with suppress(TimeoutError):
            client.wait_for_workers(1, timeout=SECONDS_BETWEEN_LOOKS)
        if pool.cluster not in QUEUES and monotonic() - start > SECONDS_TO_START:
            raise RieszError(
                f"no process came to {pool.cluster or 'this machine'} in "
                f"{SECONDS_TO_START / 60:.0f} minutes: on a cluster, start some by dask worker "
                "ADDRESS; here, look for what ends them."
            )


def look_after(client: Any, pool: Pool, running: Iterable[Any]) -> None:
    """While nothing is finished: is everybody still there?"""
    if any(future.status in ("cancelled", "lost") for future in running):
        raise error_of_lost_worker(client)
    start_missing(client, pool)
    wait_for_one(client, pool)


def error_of_lost_worker(client: Any) -> RieszError:
    return RieszError(
        f"the scheduler at {client.scheduler.address} is gone: start it, and run this again."
    )


@contextmanager
def limit_threads(num_workers: int, threads: int | None = None) -> Iterator[None]:
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
