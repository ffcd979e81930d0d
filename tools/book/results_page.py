"""The page of benchmarks: every result file of the repository, with where it comes from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_ROWS = 12
"""Of a table that is shown; more are a click away."""
MOST_COLUMNS = 14

FOLDERS = ("paper/results", "results")
"""Of experiments of the paper, and of the product: benchmarks, walks, calibration."""

ABOUT = {
    "agreement": "Densities against each other on one problem.",
    "amortised": "One encoder for a hundred data sets, against quadrature "
    "([how](../paper/docs/amortised.md#how-right-it-is)).",
    "aquifer": "Held-out wells, with physics and without ([how](../paper/docs/aquifer.md)).",
    "aquifer-first": "A first run of the aquifer ([how](../paper/docs/aquifer.md)).",
    "aquifer-select": "The aquifer's model, chosen on training wells only "
    "([how](../paper/docs/aquifer.md)).",
    "aquifer-select-first": "The choice behind the first run of the aquifer.",
    "bench-aquifer-mesh": "Scores of the aquifer on a finer mesh.",
    "bench-aquifer-step": "A training step on two meshes of the aquifer.",
    "bench-assembly": "Residual and stiffness matrix, against scikit-fem and dolfinx.",
    "bench-covariates": "Covariates and a field: problem files against field regression "
    "([how](../paper/docs/jura.md#from-a-problem-file)).",
    "bench-first-map": "The file that `init` writes, against kriging and others "
    "([how](#how-good-a-first-map-is)).",
    "bench-laplace": "`laplace` with one unknown at each of 129 x 129 nodes.",
    "bench-latency": "What every command takes, and compiles ([how](#how-long-a-command-takes)).",
    "bench-precision-gpu": "float32 against float64 on a GPU.",
    "bench-setup": "Nested meshes and the problems on them: seconds and memory.",
    "bench-step": "A training step on mini-patches, from 1,681 to 1,050,625 nodes.",
    "blocks": "Sixty-four unknowns ([how](../paper/docs/blocks.md)).",
    "calibration": "Simulation-based calibration of the transport problem "
    "([how](trust.md#is-the-whole-problem-calibrated)).",
    "checkerboard": "Rough physics, against physics-informed networks "
    "([how](../paper/docs/rough-physics.md)).",
    "field": "A log-diffusivity with sixteen terms, `gaussian-vi` on a surrogate against NUTS.",
    "jura": "Heavy metals in the Jura, all methods ([how](../paper/docs/jura.md)).",
    "jura-first-choice": "The first choice of settings for the Jura "
    "([why there are two](../paper/docs/jura.md#what-was-tried)).",
    "jura-select": "Settings for the Jura, by cross-validation on training samples.",
    "misspecified": "An equation that lacks a term ([how](../paper/docs/misspecified.md)).",
    "norms": "Which estimators are norms ([how](../paper/docs/norm-equivalence.md)).",
    "smoother": "The paper's Fig. 1: a noisy source, smoothed by transport.",
    "taper": "Errors of patch estimates, the paper's supplement C.",
    "transport": "The paper's Fig. 4: a wind, every method against the exact posterior "
    "([crossover points](#engines-compared)).",
    "walks": "From tables to maps, command by command ([how](index.md#two-walks)).",
}


@dataclass(frozen=True)
class ResultFile:
    """A result file: its name, its place in the repository, and what lies beside it."""

    name: str
    place: str
    content: Mapping[str, Any]
    pictures: tuple[str, ...]
    tables: tuple[str, ...]


def result_files(root: Path) -> list[ResultFile]:
    """Experiments first, then single files, each in the order of the alphabet."""

    def places(paths: Iterable[Path]) -> tuple[str, ...]:
        return tuple(path.relative_to(root).as_posix() for path in sorted(paths))

    folders = [root / name for name in FOLDERS]
    whole = [path for folder in folders for path in folder.glob("*/results.json")]
    single = [path for folder in folders for path in folder.glob("*.json")]
    return [
        ResultFile(
            path.parent.name,
            *places([path]),
            read(path),
            places(path.parent.glob("*.png")),
            places(path.parent.glob("*.md")),
        )
        for path in sorted(whole, key=lambda path: path.parent.name)
    ] + [
        ResultFile(path.stem, *places([path]), read(path), (), ())
        for path in sorted(single, key=lambda path: path.name)
    ]


def read(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text())
    missing = {"command", "commit", "seed", "machine", "versions", "rows", "summary"} - set(content)
    if missing:
        raise ValueError(f"{path} is no result file: it lacks {', '.join(sorted(missing))}.")
    return content


def results_section(files: Sequence[ResultFile]) -> str:
    """Markdown with links from `docs` to the repository's files."""
    return "\n\n".join(section(file) for file in files) + "\n"


def section(file: ResultFile) -> str:
    parts = [f"## {file.name}", ABOUT.get(file.name, ""), origin(file)]
    for table in pivoted(file.content["summary"]):
        parts.append(markdown_table(*table))
    rows = file.content["rows"]
    shown = columns_of(rows)
    if len(rows) <= MOST_ROWS and shown:
        cells = [[cell(row.get(column)) for column in shown] for row in rows]
        parts.append(folded(f"All {len(rows)} rows", markdown_table(shown, cells)))
    parts += [folded(f"Figure {Path(p).stem}", f"![{p}](../{p})") for p in file.pictures]
    return "\n\n".join(part for part in parts if part)


def origin(file: ResultFile) -> str:
    """Command, commit, seed, machine, and where all rows are."""
    found, machine = file.content, file.content["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    places = [f"[{Path(place).name}](../{place})" for place in (file.place, *file.tables)]
    return "\n".join(
        [
            f"- `{found['command']}`, seed {found['seed']}, commit `{shortened(found['commit'])}`",
            f"- {machine['system']} {machine['processor']}, {machine['cores']} cores; "
            f"Python {machine['python']}, {versions}",
            f"- {len(found['rows'])} rows: {', '.join(places)}",
        ]
    )


def shortened(commit: str) -> str:
    """Ten digits, and whether files had been changed."""
    digits, dash, rest = commit.partition("-")
    return digits[:10] + dash + rest


Table = tuple[list[str], list[list[str]]]


def pivoted(summary: Mapping[str, Any]) -> list[Table]:
    """Entries "group: measure" as one table with a row a group; the others as name and value.

    Groups share a table where they have the same measures.
    """
    groups: dict[str, dict[str, Any]] = {}
    plain = {}
    for key, value in summary.items():
        group, colon, measure = key.rpartition(": ")
        if key == "rows" or value in ([], None):
            continue
        if colon:
            groups.setdefault(group, {})[measure] = value
        else:
            plain[key.replace("_", " ")] = value
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for group, measures in groups.items():
        row = [group, *(cell(value) for value in measures.values())]
        tables.setdefault(tuple(measures), []).append(row)
    found: list[Table] = [(["", *measures], rows) for measures, rows in tables.items()]
    if plain:
        found.insert(0, (["", "value"], [[name, cell(value)] for name, value in plain.items()]))
    return found


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns with single values, in the order in which they appear."""
    names = {name: None for row in rows for name in row}
    flat = [
        name for name in names if not any(isinstance(row.get(name), list | dict) for row in rows)
    ]
    return flat[:MOST_COLUMNS]


def cell(value: Any) -> str:
    """Numbers with four digits; nothing for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(cell(part) for part in value)
    return str(value).replace("|", "\\|").replace("\n", " ")


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def folded(title: str, text: str) -> str:
    """A box that opens by a click."""
    inside = "\n".join(f"    {line}" if line else "" for line in text.splitlines())
    return f'??? note "{title}"\n\n{inside}'
