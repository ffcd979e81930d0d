"""The page itself: content put into a template, every word of a user escaped."""

import base64
import json
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from riesz.case.options import ReportOptions
from riesz.case.report import sections
from riesz.case.report.charts import rgb
from riesz.case.report.content import Content, Flow, content_of
from riesz.case.report.maps import encode_grid, encode_map, round_digits
from riesz.case.report.next import LINK, next_section
from riesz.case.report.residuals import residual_map
from riesz.case.report.trust import BAD, DOUBTFUL, GOOD, OPEN
from riesz.case.run.folder import PROBLEM, Run
from riesz.io.store.files import check_target, read_bytes, write_bytes
from riesz.mesh.facets import cell_edges
from riesz.mesh.mesh import Mesh

REPORT = "report.html"
LAYERS = "flow", "mesh"
COLOUR_MAPS = {"mean": "viridis", "sd": "magma", "exceed": "cividis"}
NUM_COLOURS = 256
MOST_EDGES = 30_000
"""Of a mesh that is drawn: of larger ones nothing would be seen."""

LONGEST = 0.95
"""Share of the arrows that are shorter than the longest: the flux beside a well has no bound."""

IN_SHORT = {
    GOOD: "Nothing speaks against trusting it.",
    OPEN: "Nothing speaks against it, but not all of it was checked.",
    DOUBTFUL: "Some of it is to be taken with care.",
    BAD: "It should not be used as it is.",
}


def write_report(run: Run, options: ReportOptions) -> dict[str, Any]:
    """Write the page; returns in short what was written."""
    path = run.folder / REPORT if options.out is None else Path(options.out)
    check_target(path, "a report is", (".html", ".htm"))
    content = content_of(run, num_draws=options.num_draws, seed=options.seed)
    data = page(content).encode()
    write_bytes(path, data)
    return {
        "out": str(path),
        "bytes": len(data),
        "maps": [one.title for one in content.maps],
        "trust": content.level,
        "notes": list(map(str, content.warnings)),
    }


def page(content: Content) -> str:
    """The whole page as text."""
    script = asset("page.js")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    data = page_data(content)
    return Template(asset("page.html")).substitute(
        title=escape(f"{content.name}: {content.measured.name}"),
        heading=escape(content.measured.name),
        run=escape(content.name),
        style=asset("page.css"),
        script=script,
        script_hash=digest,
        data=embed_json(data),
        summary=sections.summary_paragraph(content),
        remarks=sections.remarks_list(content.remarks),
        level=sections.level_mark(content.level),
        level_words=escape(IN_SHORT[content.level]),
        warnings=sections.warnings_list(map(str, content.warnings)),
        layers=sections.checkboxes(name for name in LAYERS if data[name] is not None),
        marks=sections.marks_note(content),
        parameters=sections.parameters_table(content),
        fit=sections.fit_section(content),
        measurements=sections.measurements_table(content),
        trust=sections.trust_list(content),
        residuals=residual_map(content.dots, content.outline),
        curves=sections.curves_section(content),
        budget=sections.budget_section(content),
        next=next_section(content.answers, content.outline),
        next_link=LINK if content.answers else "",
        facts=sections.facts_table(content),
        configuration=escape(read_bytes(content.run.folder / PROBLEM).decode(errors="replace")),
    )


def asset(name: str) -> str:
    return files("riesz.case.report").joinpath(name).read_text(encoding="utf-8")


def embed_json(data: dict[str, Any]) -> str:
    """JSON that cannot end the element that it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page_data(content: Content) -> dict[str, Any]:
    """What the map viewer reads."""
    data = content.measurements
    shares = np.linspace(0, 1, NUM_COLOURS)
    return {
        "grid": encode_grid(content.pixels),
        "maps": [encode_map(one) for one in content.maps],
        "outline": [round_digits(ring) for ring in content.outline],
        "measurements": {
            "x": round_digits(data.points[:, 0]),
            "y": round_digits(data.points[:, 1]),
            "measured": round_digits(data.measured, 6),
            "predicted": round_digits(data.predicted, 6),
            "residual": [None if np.isnan(one) else one for one in round_digits(data.residuals, 4)],
            "sd": round_digits(data.sd, 4),
            "censored": np.asarray(data.censored, dtype=bool).tolist(),
            "unit": content.measured.unit or "",
            "name": content.measured.name,
        },
        "flow": None if content.flow is None else encode_flow(content.flow),
        "mesh": encode_mesh(content.draws.mesh),
        "course": content.course,
        "colours": {key: rgb(name, shares) for key, name in COLOUR_MAPS.items()},
    }


def encode_mesh(mesh: Mesh) -> dict[str, Any] | None:
    """The edges of its cells, as pairs of nodes."""
    ends, _ = cell_edges(mesh)
    if len(ends) > MOST_EDGES:
        return None
    x, y = (round_digits(part) for part in mesh.nodes.T)
    return {"x": x, "y": y, "edges": ends.tolist()}


def encode_flow(flow: Flow) -> dict[str, Any]:
    """Arrows; their lengths go by the share of a flux that few exceed."""
    sizes = np.hypot(*flow.flux.T)
    return {
        "x": round_digits(flow.points[:, 0]),
        "y": round_digits(flow.points[:, 1]),
        "east": round_digits(flow.flux[:, 0], 4),
        "north": round_digits(flow.flux[:, 1], 4),
        "longest": float(np.quantile(sizes, LONGEST)) or 1.0,
        "spacing": flow.spacing,
    }
