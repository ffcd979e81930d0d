"""The section "Where to measure next", where that was asked about the run."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from riesz.case.report.charts import MapFrame, Ring, colour_codes, digits, svg
from riesz.case.report.sections import html_table, sentence
from riesz.case.run.folder import NEXT
from riesz.errors import FileFormatError

MARK = 5.0
"""Half the size of a candidate that is no cell, and of what is chosen."""

LINK = ' <a href="#next">Next</a>'


def next_section(answers: Iterable[dict[str, Any]], outline: Sequence[Ring]) -> str:
    """Nothing where nothing was asked."""
    try:
        parts = "".join(answer_part(one, outline) for one in answers)
    except (IndexError, KeyError, TypeError, ValueError):
        raise FileFormatError(
            f"{NEXT} of the run is not what riesz next wrote: delete it, and ask again."
        ) from None
    if not parts:
        return ""
    return (
        '<section id="next" aria-labelledby="next-title">'
        '<h2 id="next-title">Where to measure next</h2>'
        "<p>What one further measurement would take on average from what is uncertain, whatever it "
        "reads: by linear regression over draws of this posterior, which is exact where all is "
        "normal. Where the model is wrong it cannot know.</p>"
        f"{parts}</section>"
    )


def answer_part(answer: dict[str, Any], outline: Sequence[Ring]) -> str:
    when = f" on {answer['date']}" if answer["date"] else ""
    head = f"For {answer['quantity']}{when}"
    words = (
        f"the {answer['words']} is {digits(answer['before'])} now. There were "
        f"{answer['candidates']} candidates, and the measurement has a noise of "
        f"{digits(answer['noise_sd'])} (sd)"
    )
    return (
        f"<h3>{escape(head)}</h3><p>{escape(sentence(words))}</p>"
        f"{map_of(answer, outline)}{places_table(answer['places'])}"
    )


def places_table(places: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            escape(str(one["rank"])),
            escape(", ".join(format_cell(value) for value in list(one.values())[1:-4])),
            f"{percent(one['share'])} &plusmn; {percent(one['error'])}",
            percent(one["cumulative"]),
        )
        for one in places
    ]
    head = ("rank", "place", "less by itself", "less with those above")
    return html_table(head, rows, "stack")


def format_cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.7g}"


def percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def map_of(answer: dict[str, Any], outline: Sequence[Ring]) -> str:
    """Candidates in the colour of what each would tell by itself, and those chosen."""
    shown = answer["map"]
    frame = MapFrame(outline)
    shares = np.asarray(shown["shares"])
    most = float(shares.max()) or 1.0
    codes = colour_codes("viridis", shares / most)
    cell = np.array(shown["cell"] or [2 * MARK / frame.scale] * 2)
    size = cell * frame.scale + 0.3  # no seams between cells
    area = f'width="{size[0]:.2f}" height="{size[1]:.2f}"'
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" {area} fill="{code}"/>'
        for (x, y), code in zip(frame(shown["points"]) - size / 2, codes, strict=True)
    ]
    parts = ['<g shape-rendering="crispEdges">', *parts, "</g>", *frame.outline]
    for rank, (x, y) in enumerate(frame(shown["chosen"]), start=1):
        anchor, beside = ("end", -7) if x > frame.width / 2 else ("start", 7)
        parts.append(
            f'<circle class="chosen" cx="{x:.1f}" cy="{y:.1f}" r="{MARK}"/>'
            f'<text class="rank" x="{x + beside:.1f}" y="{max(y - 5, 16):.1f}" '
            f'text-anchor="{anchor}">{rank}</text>'
        )
    words = f"map of what a measurement would tell, at most {percent(most)} less"
    return (
        f"<figure>{svg(parts, words, (frame.width, frame.size[1]))}<figcaption>From nothing (dark) "
        f"to {percent(most)} less (bright) by one measurement; numbers are ranks.</figcaption>"
        "</figure>"
    )
