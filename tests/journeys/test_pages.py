"""Every command of README, docs and paper/docs works as printed, in the order of its page."""

import csv
import gzip
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer.main
from tests.journeys import strip
from tests.journeys.conftest import data_folder
from tests.journeys.heads import kriged, nearest, read_column, scores, wells, write_table
from tests.journeys.pages import PAGES, ROOT, command_lines, printed_file

import riesz.datasets
from riesz.cli.main import app

DOCS = ROOT / "docs"
ELSEWHERE = re.compile(
    r"riesz (experiment|data fetch|app)\b|.* --(processes|cluster|array)\b|.*/shared/"
)
"""Runs of the paper, which its own tests make small; queues, clusters, several machines; what waits
for a person."""
STATS = "--stat mean,q2.5,q97.5"
WALKS = "## Two walks"
"""On the Start page; what stands above it are commands of the example."""
AQUIFER = "riesz fit examples/aquifer/problem.toml --out out/aquifer"


def test_every_page_with_commands_is_walked_here():
    walked = {"README.md", *(f"{name}.md" for name in PREPARED)}
    assert {page.name for page in PAGES if typed(page)} == walked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_commands_exist(page):
    """Also of those that need a cluster or hours."""
    group = typer.main.get_command(app)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for line in command_lines(page):
        words = shlex.split(line.removesuffix("&"))
        while words and ("=" in words[0] or words[0] in ("srun", "export")):
            words.pop(0)
            words = words[1:] if words and words[0].startswith("--") else words
        if words[:1] == ["make"]:
            assert set(words[1:]) <= set(targets)
        if words[:1] == ["riesz"]:
            command = group.commands[words[1]]  # pyright: ignore[reportAttributeAccessIssue]
            command.make_context(words[1], words[2:])


def typed(page: Path, below: str = "") -> list[str]:
    """What can be run here."""
    lines = [line for line in command_lines(page, below) if not ELSEWHERE.match(line)]
    return [line for line in lines if line.startswith("riesz ")]


def in_repository(shell) -> None:
    shutil.copytree(ROOT / "examples", shell.folder / "examples")


def with_places(shell) -> None:
    in_repository(shell)
    shutil.copy(shell.folder / "examples/aquifer/wells.csv", shell.folder / "places.csv")


def with_aquifer(shell) -> None:
    """The run of README's commands, and places to ask it about."""
    with_places(shell)
    shell(f"{AQUIFER} --quiet")


def with_two_models(shell) -> None:
    """The aquifer of the examples, and the same with one transmissivity everywhere."""
    for name in ("outline.geojson", "wells.csv", "problem.toml"):
        shutil.copy(ROOT / "examples" / "aquifer" / name, shell.folder)
    field = (shell.folder / "problem.toml").read_text()
    (shell.folder / "other.toml").write_text(field)
    uniform = re.sub(
        r'prior = "log-kl".*?terms = 8',
        'prior = "lognormal"\nmedian = 20_000\nlog_sd = 0.7',
        field,
        flags=re.DOTALL,
    )
    assert uniform != field
    (shell.folder / "problem.toml").write_text(uniform)


def with_sites(shell) -> None:
    """Two sites of twelve wells each."""
    for number, name in enumerate(("north", "south")):
        folder = shell.folder / "sites" / name
        folder.mkdir(parents=True)
        points, heads = wells(12, seed=number)
        rows = [
            [*map(str, point), f"{value:.3f}"] for point, value in zip(points, heads, strict=True)
        ]
        write_table(folder / "wells.csv", ["x", "y", "head_m"], rows)
        shell(f"riesz init {folder}/wells.csv --value head_m --out {folder}/problem.toml --quiet")
        problem = folder / "problem.toml"
        coarse = re.sub(r"^max_edge = .*", "max_edge = 2000", problem.read_text(), flags=re.M)
        problem.write_text(coarse)


def with_readings(shell) -> None:
    """Of the pumping test whose rate the page gives, and rates with a pause."""
    folder = data_folder("pumping")
    shutil.copy(folder / "oude_korendijk.csv", shell.folder / "readings.csv")
    (shell.folder / "rates.csv").write_text("time_d,rate\n0,9.12\n")


def with_problem(shell) -> None:
    for name in ("sensors.csv", "problem.toml"):
        shutil.copy(ROOT / "examples" / "transport" / name, shell.folder)


def with_measurements(shell) -> None:
    """The files of both walks, without the sites and samples by which they are scored."""
    esrp, jura = data_folder("esrp"), Path(riesz.datasets.__file__).parent / "jura_files"
    for name in ("levels_pre2000.csv.gz", "boundary_simplified.geojson"):
        shutil.copy(esrp / name, shell.folder)
    with (esrp / "wells.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    use, read = header.index("use"), readings_of(shell.folder)
    used = [row for row in rows if row[use] == "True" and row[0] in read]
    for row in used[::10]:
        row[use] = "left out"
    write_table(shell.folder / "wells.csv", header, rows)
    write_table(shell.folder / "left_out_wells.csv", header, used[::10])
    with (jura / "jura.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    write_table(shell.folder / "jura.csv", header, [row for row in rows if row[0] == "train"])
    write_table(shell.folder / "left_out.csv", header, [row for row in rows if row[0] != "train"])


def readings_of(folder: Path) -> dict[str, list[float]]:
    """Heads by the well that they were read at."""
    readings: dict[str, list[float]] = {}
    with gzip.open(folder / "levels_pre2000.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["drop_reason"]:
                readings.setdefault(row["site_no"], []).append(float(row["head_ft"]))
    return readings


def read_wells(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Places of the wells of a table that are used or were left out, and medians of their heads."""
    readings = readings_of(folder)
    with (folder / name).open(newline="", encoding="utf-8") as file:
        rows = [
            (float(row["x_m"]), float(row["y_m"]), np.median(readings[row["site_no"]]))
            for row in csv.DictReader(file)
            if row["site_no"] in readings and (name != "wells.csv" or row["use"] == "True")
        ]
    table = np.array(rows)
    return table[:, :2], table[:, 2]


def with_run_in_time(shell) -> None:
    strip.write_problem(shell.folder)
    changes = printed_file(DOCS / "time.md", "from = 2004-01-01")
    for own, here in (("boundary.lake", "boundary.left"), ("y = 500", "y = 300")):
        assert own in changes
        changes = changes.replace(own, here)
    (shell.folder / "dry.toml").write_text(changes)
    write_table(shell.folder / "places.csv", ["x", "y"], [["250", "200"], ["750", "200"]])
    shell("riesz fit problem.toml --out run --quiet")


PREPARED = {
    "README": in_repository,
    "compare": with_two_models,
    "data": in_repository,
    "index": in_repository,
    "many": with_sites,
    "next": with_aquifer,
    "pumping": with_readings,
    "report": with_places,
    "runs": with_problem,
    "time": with_run_in_time,
    "trust": in_repository,
}
"""What a page presumes to be there."""


LONG = ("pumping", "report", "runs", "time", "trust")
"""Pages whose commands take many minutes."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in PREPARED],
)
def test_commands_of_a_page_work_in_its_order(name, riesz):
    (page,) = [page for page in PAGES if page.stem == name]
    PREPARED[name](riesz)
    lines = typed(page)
    if name == "time":  # its first three commands, of a network, are walked by test_monitoring.py
        lines = lines[3:]
    if name == "index":  # the walks need data, and are scored below
        lines = lines[: -len(typed(page, WALKS))]
    for line in lines:
        riesz(line)
        for wanted in re.findall(r"--out (\S+)", line):
            assert (riesz.folder / wanted).exists(), line


@pytest.mark.slow
def test_the_walks_map_what_was_left_out(riesz):
    """Wells and samples that no command was given: means are closer than those of simple rules,
    intervals hold most of them. That kriging does as well on the plain, and without physics on the
    soils, the fits say themselves: maps may not be worse than what knows no equation by more than
    the places can tell."""
    with_measurements(riesz)
    first, second = np.array_split(np.array(typed(DOCS / "index.md", WALKS)), 2)
    for line in first:
        riesz(line)
    riesz(f"riesz predict run --points left_out_wells.csv {STATS} --out at_wells.csv")
    places, heads = read_wells(riesz.folder, "wells.csv")
    new, truth = read_wells(riesz.folder, "left_out_wells.csv")
    error, inside = scores(riesz.folder / "at_wells.csv", truth)
    assert error < np.mean(abs(nearest(places, heads, new) - truth))
    mapped = read_column(riesz.folder / "at_wells.csv", "measurement_mean")
    assert is_no_worse(mapped, kriged(places, heads, new), truth)
    assert inside >= 0.85
    shutil.rmtree(riesz.folder / "run")
    for line in second:
        riesz(line)
    riesz(f"riesz predict run --points left_out.csv {STATS},median --out at_samples.csv")
    truth = read_column(riesz.folder / "left_out.csv", "Cd")
    _, inside = scores(riesz.folder / "at_samples.csv", truth)
    assert 0.88 <= inside <= 0.99
    # Cadmium is skewed: what is closest by absolute errors is the median.
    mapped = read_column(riesz.folder / "at_samples.csv", "measurement_median")
    (places, known), (new, asked) = (
        read_samples(riesz.folder / name) for name in ("jura.csv", "left_out.csv")
    )
    samples = np.log(read_column(riesz.folder / "jura.csv", "Cd"))
    error = np.mean(abs(mapped - truth))
    assert error < np.mean(abs(np.exp(nearest(places, samples, new)) - truth))
    assert error < np.mean(abs(np.exp(kriged(places, samples, new)) - truth))
    slopes, *_ = np.linalg.lstsq(known, samples, rcond=None)
    assert is_no_worse(mapped, np.exp(asked @ slopes), truth)


def read_samples(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Places, and what a regression would know of them: a level, land use, logs of two metals."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    places = np.array([[float(row["x_km"]), float(row["y_km"])] for row in rows])
    uses = [[float(row["landuse"] == one) for one in ("Forest", "Pasture")] for row in rows]
    metals = [[np.log(float(row[one])) for one in ("Ni", "Zn")] for row in rows]
    return places, np.column_stack([np.ones(len(rows)), uses, metals])


def is_no_worse(ours: np.ndarray, theirs: np.ndarray, truth: np.ndarray) -> bool:
    """By absolute errors, as far as so many places can tell: two standard errors of their mean."""
    worse = abs(ours - truth) - abs(theirs - truth)
    return bool(np.mean(worse) < 2 * np.std(worse, ddof=1) / np.sqrt(len(worse)))
