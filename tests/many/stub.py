"""`riesz fit-many` with fits that take a moment and no compiler, for tests of what is around them.

A run folder is whole or not there, as that of a true fit; each that is finished is told in a log. A
site called poison takes its process down, one called wrong raises.
"""

import csv
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

from riesz.cli.main import main
from riesz.errors import EngineError
from riesz_many import campaign

true_attempted = campaign.attempt  # before it is replaced, below
SECONDS = float(os.environ.get("STUB_SECONDS", "0.3"))


def fit_site(order, row, out):
    name = order.site.name
    if name == "poison":
        os._exit(3)
    if name == "wrong":
        raise EngineError("the engine failed: no solution.")
    time.sleep(SECONDS)
    partial = out.with_name(f"{out.name}.unfinished")
    partial.mkdir(parents=True, exist_ok=True)
    text = Path(order.site.problem).read_text()
    (partial / "draws").write_text(f"{name} {order.site.seed} {text}")
    (partial / "manifest.json").write_text("{}")
    with (Path(order.runs) / "finished.log").open("a") as log:
        log.write(f"{name} {os.getpid()}\n")
    partial.rename(out)
    return adopt_run(order, row, out)


def adopt_run(order, row, out):
    return replace(row, state="done", engine="stub", verdict="good")


def remove_run(out):
    for path in (*out.iterdir(), out):
        path.rmdir() if path.is_dir() else path.unlink()


def attempted(order):
    campaign.SITE_FIT = "tests.many.stub"
    return true_attempted(order)


def sites(folder, names):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "problem.toml").write_text(f"# {name}\n[observations]\n")
    return folder


def rows(runs):
    with (runs / "ledger.csv").open() as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def finished(runs):
    log = runs / "finished.log"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def content(folder):
    """All that is in a run folder but how long it took, from which command, and the report."""
    left_out = ("manifest.json", "report.html")
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in left_out]
    return {path.relative_to(folder): path.read_bytes() for path in files}


if __name__ == "__main__":
    from tests.many.stub import attempted as by_name

    if largest := os.environ.get("STUB_LARGEST"):  # file, in bytes, as on a disk that is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(largest), int(largest)))
    campaign.attempt = by_name  # which processes can import
    main()
