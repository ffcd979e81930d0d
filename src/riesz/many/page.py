"""The overview of many fits: one page, which links the report of each."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from riesz.io.store.files import write_bytes
from riesz.many.ledger import DONE, Row

PAGE = "index.html"
SHOWN_BY = ("report.html", "summary.txt")
"""What a name leads to: the first of these that is there."""


def write_page(runs: Path, rows: Sequence[Row]) -> None:
    heading = f"{len(rows)} fits in {runs.resolve().name}"
    template = files("riesz.many").joinpath("overview.html").read_text(encoding="utf-8")
    seconds = sum(row.seconds or 0.0 for row in rows)
    page = Template(template).substitute(
        title=escape(heading),
        heading=escape(heading),
        intro=f"{sum(row.state == DONE for row in rows)} are done, in {seconds:.0f} seconds of "
        'fitting. The same as a table: <a href="ledger.csv">ledger.csv</a>.',
        counts="\n".join(
            f"<li>{mark(word)} {count}</li>"
            for word, count in Counter(map(said, rows)).most_common()
        ),
        rows="\n".join(line(runs, row) for row in rows),
    )
    write_bytes(runs / PAGE, page.encode())


def said(row: Row) -> str:
    """The verdict on a fit that is done, or how far it is."""
    return row.verdict or DONE if row.state == DONE else row.state


def mark(word: str) -> str:
    return f'<span class="level {escape(word.replace(" ", "-"))}">{escape(word)}</span>'


def line(runs: Path, row: Row) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
    message = f'<div class="message">{escape(row.message)}</div>' if row.message else ""
    return (
        f'<tr><td>{linked(runs, row)}{message}</td><td class="verdict">{mark(said(row))}</td>'
        f'<td class="extra">{escape(row.engine or "")}</td>'
        f'<td class="number extra">{row.attempts}</td><td class="number">{seconds}</td></tr>'
    )


def linked(runs: Path, row: Row) -> str:
    name = escape(row.name)
    for file in SHOWN_BY:
        if row.state == DONE and (runs / row.name / file).is_file():
            return f'<a href="{escape(quote(f"{row.name}/{file}"))}">{name}</a>'
    return name
