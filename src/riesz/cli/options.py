"""What commands of `riesz` share: options, JSON, and what they choose for their whole process."""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from riesz.errors import RieszError

OutOption = Annotated[
    Path, typer.Option("--out", help="Folder for results.json, table and figures.")
]
# The largest that a key takes; experiments make others, up to a thousand times as large.
SeedOption = Annotated[int, typer.Option("--seed", help="Draws fresh data.", min=0, max=2**32 - 1)]
FitSeedOption = Annotated[
    int, typer.Option("--seed", help="Starts the random numbers.", min=0, max=2**63 - 1)
]
EngineOption = Annotated[
    str | None, typer.Option("--engine", help="auto, or the name of an engine such as nuts.")
]
CheckOption = Annotated[
    bool | None,
    typer.Option(
        "--check/--no-check",
        help="Check the posterior by exact solves afterwards [default: if that is quick].",
    ),
]
CovariateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--covariate",
        help="A covariate at the places: a value, a word or a raster; repeat for others.",
        metavar="NAME=VALUE|RASTER.tif",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")]
ProblemArgument = Annotated[
    Path, typer.Argument(help="The problem file (TOML).", metavar="PROBLEM")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print nothing but errors, and JSON where asked for.")
]
CheckJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object last.")]


def parse_seconds(text: str) -> float:
    """From 90s, 10m or 2h, or from a plain number of seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return float(number) * unit
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write 90s, 10m or 2h") from None


def devices_in(text: str) -> int | str:
    """A number, or all."""
    try:
        return "all" if text == "all" else int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number: write 2, say, or all") from None


DevicesOption = Annotated[
    Any,
    typer.Option(
        "--devices",
        help="Share draws and chains among so many of JAX's devices, or all.",
        parser=devices_in,
        metavar="N|all",
    ),
]
ProcessesOption = Annotated[
    str | None,
    typer.Option(
        "--processes",
        help="Fit together with other processes that run the same command: auto under SLURM and "
        "Open MPI; else HOST:PORT of the first, how many, and which this is, from 0.",
        metavar="auto|HOST:PORT,COUNT,NUMBER",
    ),
]


def join_cluster(processes: str) -> bool:
    """Join other processes; whether this is the first of them."""
    from riesz.devices import join_processes

    if processes == "auto":
        return join_processes() == 0
    address, _, numbers = processes.partition(",")
    try:
        count, number = map(int, numbers.split(","))
    except ValueError:
        raise RieszError(
            f"--processes is {processes!r}: write auto, or HOST:PORT,COUNT,NUMBER, as in "
            "localhost:1234,2,0."
        ) from None
    return join_processes(address, count, number) == 0


def json_of(content: dict[str, Any]) -> str:
    """One line of JSON; what is not finite is an error rather than no JSON."""
    from riesz.io.store.results import json_line

    return json_line(content)


def use_float64() -> None:
    """Exact solves need it."""
    import jax

    jax.config.update("jax_enable_x64", True)


def use_one_thread() -> None:
    """For algebra of small matrices, whose threads wait for each other longer than they work.

    Libraries read it when NumPy is imported, which no command has done at its beginning.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def keep_compiled() -> None:
    """For commands that compile: the next run finds what this one compiled."""
    from riesz.io.store.programs import keep_programs

    keep_programs()


def quick_compiling() -> None:
    """For commands that evaluate everything a few times: compiling is most of what they do."""
    from riesz.many.compiling import compile_quickly

    compile_quickly()


def engine_in_file(problem: Path) -> str | None:
    """The engine that a problem file names; files that cannot be read are told of later."""
    try:
        named = tomllib.loads(problem.read_text(encoding="utf-8")).get("engine", {})
    except (OSError, ValueError):
        return None
    return named.get("name") if isinstance(named, dict) else None
