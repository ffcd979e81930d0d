"""How long does each command take, and how much of it is compiling?

Four problems go from a table to a report, each command in a process of its own. Two earlier ones,
one of either kind and smaller (of another metal, or with half of the wells), have filled an empty
cache of programs. Times are told as multiples of what `python -c "import jax"` takes on the same
machine in the same minutes.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import parser_of, save

ROOT = Path(__file__).parent.parent
JURA = ROOT / "src" / "riesz" / "datasets" / "jura_files" / "jura.csv"
AQUIFER = ROOT / "examples" / "aquifer"
NUM_ROWS, EARLIER_ROWS, EARLIER_WELLS = 100, 60, 40
EARLIER = "earlier"
NUM_IMPORTS = 3
"""Of JAX, beside each command."""

COUNTED = """
import json, sys
from pathlib import Path
from riesz.cli.main import main
from riesz.case.options import FitOptions
from riesz.cli.options import is_marginal, use_one_thread
if sys.argv[1] == "fit" and is_marginal(Path(sys.argv[2]), FitOptions("run")):
    use_one_thread()  # as the command does, which does not import JAX before
import jax.monitoring
found = {"requests": 0, "hits": 0}
def durations(name, seconds, **_):
    found["requests"] += name.endswith("backend_compile_duration")
def events(name, **_):
    found["hits"] += name.endswith("compilation_cache/cache_hits")
jax.monitoring.register_event_duration_secs_listener(durations)
jax.monitoring.register_event_listener(events)
try:
    main()
finally:
    print(json.dumps(found), file=open(sys.argv.pop(0) + ".programs", "w"))
"""

PROBLEMS = {
    f"{EARLIER}, from init": ["init jura.csv --value Co --out problem.toml"],
    f"{EARLIER}, aquifer": [],
    "jura": ["init jura.csv --value Cd --log --out problem.toml"],
    "jura-covariates": ["init jura.csv --value Cd --covariates Pb,Ni,Zn --log --out problem.toml"],
    "wells": ["init wells.csv outline.geojson --out problem.toml"],
    "aquifer": [],
}
"""What makes the problem file, where the example does not bring it."""

COMMANDS = [
    "check problem.toml",
    "fit problem.toml --out run --quiet",
    "fit problem.toml --out again --quiet",
    "predict run --points places.csv --stat all --out points.csv",
    "predict run --grid 60x60 --stat mean,sd --out map.tif",
    "predict run --grid 60x60 --stat mean --out map.gpkg",
    "report run",
]


def prepared(problem: str, folder: Path) -> None:
    """The data of a problem, and places where it is asked for predictions."""
    is_earlier = problem.startswith(EARLIER)
    if "jura" in problem or "init" in problem:
        header, *lines = JURA.read_text().splitlines(keepends=True)
        count = EARLIER_ROWS if is_earlier else NUM_ROWS
        (folder / "jura.csv").write_text("".join([header, *lines[:count]]))
        (folder / "places.csv").write_text("".join([header, *lines[:count]]))
        return
    for name in ("outline.geojson", *(["problem.toml"] * ("aquifer" in problem))):
        shutil.copy(AQUIFER / name, folder)
    header, *lines = (AQUIFER / "wells.csv").read_text().splitlines(keepends=True)
    for name in ("wells.csv", "places.csv"):
        count = EARLIER_WELLS if is_earlier else len(lines)
        (folder / name).write_text("".join([header, *lines[:count]]))


def timed(words: list[str], folder: Path, told: dict[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of one process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=told, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(words[3:])}\n{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def rows_of(problem: str, folder: Path, cache: Path) -> Iterator[dict]:
    told = os.environ | {"RIESZ_CACHE": str(cache), "MPLBACKEND": "Agg"}
    told.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package comes with its bytecode
    counted = folder / "riesz"
    prepared(problem, folder)
    for command in [*PROBLEMS[problem], *COMMANDS]:
        cold = not any(cache.iterdir())
        imported = statistics.median(
            timed([sys.executable, "-c", "import jax"], folder, told)[0] for _ in range(NUM_IMPORTS)
        )
        words = [sys.executable, "-c", COUNTED.replace("sys.argv.pop(0)", repr(str(counted)))]
        wall, used = timed([*words, *command.split()], folder, told)
        programs = json.loads(Path(f"{counted}.programs").read_text())
        row = {
            "problem": problem,
            "command": command,
            "cold": cold,
            "programs": programs["requests"] - programs["hits"],
            "found_in_cache": programs["hits"],
            "cpu_seconds": round(used, 2),
            "wall_seconds": round(wall, 2),
            "times_import": round(wall / imported, 2),
        }
        print(row, flush=True)
        yield row


SMOKE = {"PROBLEMS": {"jura": PROBLEMS["jura"]}, "COMMANDS": [], "NUM_IMPORTS": 1}


def main() -> None:
    parser = parser_of(globals(), "results/bench-latency.json")
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="only these, and one")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as text:
        cache = Path(text) / "cache"
        cache.mkdir()
        first = [problem for problem in PROBLEMS if problem.startswith(EARLIER)]
        for problem in (*first, *(options.problem or [p for p in PROBLEMS if p not in first])):
            folder = Path(text) / problem
            folder.mkdir()
            rows += rows_of(problem, folder, cache)
    later = [row for row in rows if not row["problem"].startswith(EARLIER)]
    worst = {
        command: max(row["times_import"] for row in later if row["command"] == command)
        for command in COMMANDS
    }
    save(options.out, {"rows": NUM_ROWS}, 0, rows, worst)


if __name__ == "__main__":
    main()
