"""The page itself: content put into a template, every word of a user escaped."""

import base64
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from matplotlib import colormaps

from riesz.errors import FileFormatError
from riesz.infer.predict import NUM_DRAWS
from riesz.io.run_folder import FILES, GOES_WITH, MANIFEST
from riesz.io.whole_file import write_bytes
from riesz.report.charts import bar, curve, data_fit, number, span
from riesz.report.content import Content, read_content
from riesz.report.maps import encoded, encoded_grid
from riesz.report.trust import BAD, DOUBTFUL, GOOD

REPORT = "report.html"
COLOUR_MAPS = {"mean": "viridis", "sd": "magma", "exceed": "cividis"}
NUM_COLOURS = 256
MOST_WELLS = 500
"""Rows of the table of wells; the map shows them all."""

CAPTIONS = {
    "physics": "what the emulated state leaves of the equation",
    "bound": "lower bound of the evidence, which training raises",
    "share": "weight with which the data count already",
    "moved": "how far the posterior moved in a round, in its standard deviations",
    "misfit": "distance from the data",
    "kl": "distance of the posterior from the prior",
    "penalty": "what the state leaves of the equation",
    "cost": "minus the log-posterior, which the search lowers",
    "slope": "its gradient, zero at the most probable place",
    "iterations": "of conjugate gradients in each step",
    "log_density": "log-posterior of the draws, one line a chain",
}
"""What the curves of the engines' histories mean."""

IN_SHORT = {
    GOOD: "Nothing speaks against trusting it.",
    DOUBTFUL: "Some of it is to be taken with care.",
    BAD: "It should not be used as it is.",
}


def write_report(
    folder: Path, out: Path | None = None, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Any]:
    """Write the report of a run folder; returns in short what was written."""
    path = folder / REPORT if out is None else out
    check_target(folder, path)
    content = read_content(folder, num_draws=num_draws, seed=seed)
    data = page(content).encode()
    write_bytes(path, data)
    return {
        "out": str(path),
        "bytes": len(data),
        "maps": [one.title for one in content.maps],
        "trust": content.level,
        "notes": list(content.warnings),
    }


def check_target(folder: Path, path: Path) -> None:
    """Raise, before any work, where the page could not be written or would spoil the run."""
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is not a run folder: there is no such folder.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise FileFormatError(f"{path}: a report is a web page: give a name that ends in .html.")
    if path.is_dir():
        raise FileFormatError(f"{path} is a folder: give the name of a file.")
    if not path.absolute().parent.is_dir():
        raise FileFormatError(f"{path} cannot be written: there is no folder {path.parent}.")


def page(content: Content) -> str:
    """The whole page as text."""
    script = asset("page.js")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    return Template(asset("page.html")).substitute(
        title=escape(f"{content.name}: {content.measured.name}"),
        heading=escape(content.measured.name),
        run=escape(content.name),
        style=asset("page.css"),
        script=script,
        script_hash=digest,
        data=embedded(page_data(content)),
        summary=summary(content),
        level=content.level,
        level_words=escape(IN_SHORT[content.level]),
        warnings=warnings_list(content.warnings),
        parameters=parameters_table(content),
        fit=fit_section(content),
        wells=wells_table(content),
        trust=trust_list(content),
        curves=curves_section(content),
        budget=budget_section(content),
        facts=facts_table(content),
        configuration=escape(content.configuration),
    )


def asset(name: str) -> str:
    return files("riesz.report").joinpath(name).read_text(encoding="utf-8")


def embedded(data: dict[str, Any]) -> str:
    """JSON that cannot end the element that it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page_data(content: Content) -> dict[str, Any]:
    """What the map viewer reads."""
    wells = content.wells
    return {
        "grid": encoded_grid(content.pixels),
        "maps": [encoded(one) for one in content.maps],
        "outline": [rounded(ring) for ring in content.outline],
        "wells": {
            "x": rounded(wells.points[:, 0]),
            "y": rounded(wells.points[:, 1]),
            "measured": rounded(wells.measured, 6),
            "predicted": rounded(wells.predicted, 6),
            "residual": rounded(wells.residuals, 4),
            "sd": rounded(wells.sd, 4),
            "censored": np.asarray(wells.censored, dtype=bool).tolist(),
            "unit": content.measured.unit or "",
            "name": content.measured.name,
        },
        "colours": {key: colours(name) for key, name in COLOUR_MAPS.items()},
    }


def rounded(values: np.ndarray, digits: int = 9) -> Any:
    """Fewer digits than a float has, which is what makes the text short."""
    return [
        rounded(row, digits) if isinstance(row, np.ndarray) else float(f"{row:.{digits}g}")
        for row in values
    ]


def colours(name: str) -> list[list[int]]:
    table = colormaps[name](np.linspace(0, 1, NUM_COLOURS))[:, :3]
    return np.rint(255 * table).astype(int).tolist()


def summary(content: Content) -> str:
    """The run in a paragraph."""
    wells, measured = content.wells, content.measured
    told = content.manifest["summary"]
    unit = f" {measured.unit}" if measured.unit else ""
    names = listed_and(content.unknowns)
    seconds = told.get("seconds")
    time = "" if seconds is None else f" It took {duration(seconds)}."
    sentences = (
        f"{measured.name} was measured {len(wells.measured)} times, from "
        f"{number(wells.measured.min())} to {number(wells.measured.max())}{unit}. "
        f"From these the engine {content.engine} inferred {names}, on a mesh of "
        f"{told.get('nodes', '?')} nodes.{time} Measurements lie {content.residual_rms:.2f} noise "
        f"standard deviations from their prediction (root mean square), and {content.coverage:.0%} "
        f"of them inside their 95 % interval. Maps and intervals come from {content.num_draws} "
        "draws of the posterior."
    )
    return escape(sentences)


def listed_and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def warnings_list(warnings: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in warnings)
    return f'<ul class="warnings">{items}</ul>' if items else "<p>There were no warnings.</p>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "") -> str:
    """Cells are HTML already; each knows its column's name for narrow screens."""
    names = list(head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{name}">{cell}</td>' for name, cell in zip(names, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    header = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f'<table class="{kind}"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'


def parameters_table(content: Content) -> str:
    rows = [
        (
            escape(one.name),
            span(one.prior),
            f"<strong>{span(one.posterior)}</strong>",
            bar(one.prior, one.posterior),
        )
        for one in content.parameters
    ]
    return table(("unknown", "prior", "posterior", "prior and posterior"), rows, "stack")


def fit_section(content: Content) -> str:
    wells = content.wells
    return data_fit(wells.measured, wells.predicted, wells.low, wells.high, content.measured.label)


def wells_table(content: Content) -> str:
    """Largest residuals first: those are looked for."""
    wells = content.wells
    noise = np.maximum(wells.high - wells.low, 1e-300)
    order = np.argsort(-np.abs(wells.residuals) / noise)[:MOST_WELLS]
    rows = [
        (
            f"{wells.points[i, 0]:.7g}, {wells.points[i, 1]:.7g}",
            ("below " if wells.censored[i] else "") + number(float(wells.measured[i])),
            number(float(wells.predicted[i])),
            number(float(wells.residuals[i])),
            number(float(wells.sd[i])),
        )
        for i in order
    ]
    return table(("place", "measured", "predicted", "residual", "sd"), rows, "numbers")


def trust_list(content: Content) -> str:
    rows = [
        (
            escape(one.name),
            f'<span class="level {one.level}">{one.level}</span>',
            escape(one.found),
            escape(one.words),
        )
        for one in content.verdicts
    ]
    return table(("figure", "verdict", "found", "what it means"), rows, "stack")


def curves_section(content: Content) -> str:
    if not content.curves:
        return f"<p>The engine {escape(content.engine)} left no curves: nothing was trained.</p>"
    charts = "".join(
        f"<figure>{curve(name, lines)}<figcaption>{escape(caption(name))}</figcaption></figure>"
        for name, lines in content.curves.items()
    )
    return f'<div class="charts">{charts}</div>'


def caption(name: str) -> str:
    return f"{name}: {CAPTIONS[name]}" if name in CAPTIONS else name


def budget_section(content: Content) -> str:
    if not content.budget:
        return "<p>The equation has no gains and no prescribed values: there is no budget.</p>"
    rows = [
        (escape(line.name), number(line.mean), f"{number(line.low)} to {number(line.high)}")
        for line in content.budget
    ]
    return table(("line", "mean", "95 % interval"), rows, "numbers")


def facts_table(content: Content) -> str:
    manifest = content.manifest
    facts = {
        "command": manifest.get("command"),
        "engine": f"{content.engine}: {manifest['summary'].get('why', '')}",
        "equation": content.equation,
        "seed": manifest.get("seed"),
        "commit": manifest.get("commit"),
        "machine": listed_items(manifest.get("machine")),
        "versions": listed_items(manifest.get("versions")),
        "files of the run": ", ".join([*GOES_WITH, MANIFEST])
        + f", {len(manifest.get(FILES) or {})} with a digest",
    }
    rows = [(name, escape(str(value))) for name, value in facts.items()]
    return table(("what", "value"), rows, "facts")


def listed_items(items: Any) -> str:
    if not isinstance(items, dict):
        return "unknown"
    return ", ".join(f"{name} {value}" for name, value in items.items())
