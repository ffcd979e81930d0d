"""What an experiment is: tasks, each of which gives one flat row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riesz.io.store.results import Row


@dataclass(frozen=True)
class Task:
    """One replicate: what tells it apart from the others, and how to get its row."""

    identity: Mapping[str, Any]  # part of the row, and enough to find it again
    run: Callable[[], Row]
    apart: bool = False  # whether processes may share out replicates, which compile again then
    group: tuple[str, ...] = ()  # tasks of a group run in one process: they share what is computed


@dataclass(frozen=True)
class Experiment:
    """Tasks, a summary of their rows, and figures that are drawn at the end."""

    name: str
    config: Mapping[str, Any]
    tasks: Sequence[Task]
    summarise: Callable[[Sequence[Row]], Mapping[str, Any]]
    draw: Callable[[Sequence[Row], Path], None]
