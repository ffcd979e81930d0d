"""How work that takes long is shown: one bar, on the error stream."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


def progress_bar(progress: bool) -> "Progress":
    """What is done, the time left, and some words apart."""
    rich = import_module("rich.progress")  # which checks of a problem do without
    return rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(bar_width=20),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[terms]}"),
        console=import_module("rich.console").Console(stderr=True),
        disable=not progress,
    )


def format_levels(levels: Mapping[str, float]) -> str:
    """Numbers as words beside a bar."""
    return "  ".join(f"{name} {level:.3g}" for name, level in levels.items())
