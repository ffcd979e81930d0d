"""How much less time do many fits take by `riesz fit-many` than by a loop of `riesz fit`?

Small sites: a square with an unknown conductivity, and heads in some wells, at other places and
with other values at each site. A loop in a shell fits one after the other, each in a process of its
own; some of them are timed, after one that fills the cache of programs, and the time of all is told
from these. Reports, which `riesz fit` does not write, are a row of their own.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench import parser_of, save

COUNT, TIMED, MOST_KINDS = 200, 20, 4
WELLS, SEVERAL = (12,), (8, 9, 10, 11, 12, 13, 14, 15)
RIESZ = [sys.executable, "-c", "from riesz.cli.main import main; main()"]

PROBLEM = """
[domain]
rectangle = { lower = [0, 0], upper = [1000, 1000] }
max_edge = 100
levels = 2

[observations]
file = "wells.csv"

[noise]
sd = 0.1

[equation]
diffusion = "conductivity"
source = 5e-5

[boundary.boundary]
value = 10.0

[unknowns.conductivity]
prior = "lognormal"
median = 10.0
log_sd = 1.0
"""


def sites(folder: Path, count: int, num_wells: tuple[int, ...]) -> Path:
    """Problem files with made-up heads: a dome of water whose height differs from site to site."""
    rng = np.random.default_rng(0)
    for number in range(count):
        own = folder / f"site{number:04d}"
        own.mkdir(parents=True)
        (own / "problem.toml").write_text(PROBLEM)
        points = rng.uniform(50, 950, (num_wells[number % len(num_wells)], 2))
        dome = np.prod(np.sin(np.pi * points / 1000), axis=1)
        heads = 10 + rng.uniform(0.2, 1.0) * dome + rng.normal(0, 0.1, len(points))
        lines = [f"{x:.1f},{y:.1f},{h:.3f}" for (x, y), h in zip(points, heads, strict=True)]
        (own / "wells.csv").write_text("\n".join(["x,y,value", *lines]) + "\n")
    return folder


def run(words: list[str], told: dict[str, str]) -> float:
    """Wall seconds of one command."""
    start = time.perf_counter()
    done = subprocess.run([*RIESZ, *words], env=told, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"riesz {' '.join(words)}\n{done.stderr}")
    return time.perf_counter() - start


def fit_many_rows(folder: Path, options: Any) -> list[dict]:
    """The loop, and the same sites by one command."""
    count, timed = options.count, min(options.timed, options.count)
    told = os.environ | {"RIESZ_CACHE": str(folder / "cache"), "MPLBACKEND": "Agg"}
    told.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package comes with its bytecode
    alike = sites(folder / "alike", count, WELLS)
    several = sites(folder / "several", count, SEVERAL)

    def loop_seconds() -> float:
        problems = sorted(alike.glob("*/problem.toml"))[:timed]
        run(["fit", str(problems[0]), "--out", str(folder / "first"), "--quiet"], told)
        each = [
            run(["fit", str(one), "--out", str(folder / "loop" / one.parent.name), "--quiet"], told)
            for one in problems
        ]
        return sum(each) / timed * count

    def many_seconds(source: Path, *words: str) -> float:
        out = folder / f"runs-{source.name}{'-'.join(words)}"
        jobs = [] if options.jobs is None else ["--jobs", str(options.jobs)]
        return run(["fit-many", str(source), "--out", str(out), "--quiet", *jobs, *words], told)

    measured: dict[str, Callable[[], float]] = {
        "loop of riesz fit": loop_seconds,
        "fit-many": lambda: many_seconds(alike, "--no-reports"),
        "fit-many, with reports": lambda: many_seconds(alike),
        f"fit-many, {len(SEVERAL)} numbers of wells": lambda: many_seconds(several, "--no-reports"),
    }
    rows: list[dict] = []
    for what, seconds in list(measured.items())[:MOST_KINDS]:
        found = seconds()
        first = rows[0]["seconds"] if rows else found
        row = {
            "what": what,
            "count": count,
            "seconds": round(found, 1),
            "speedup": round(first / found, 2),
            "timed": count if rows else timed,
        }
        print(row, flush=True)
        rows.append(row)
    return rows


SMOKE = {"COUNT": 1, "TIMED": 1, "MOST_KINDS": 2, "PROBLEM": PROBLEM.replace("= 100", "= 500")}


def main() -> None:
    parser = parser_of(globals(), "results/bench-many.json")
    parser.add_argument("--count", type=int, default=COUNT, help="sites")
    parser.add_argument("--timed", type=int, default=TIMED, help="of them by a loop of riesz fit")
    parser.add_argument("--jobs", type=int, help="processes [default: processors]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        rows = fit_many_rows(Path(text), options)
    summary = {row["what"]: row["speedup"] for row in rows}
    config = {"count": options.count, "timed": options.timed, "jobs": options.jobs}
    save(options.out, config, 0, rows, summary)


if __name__ == "__main__":
    main()
