"""The parts of the page that need no script: sentences, tables and charts, all escaped."""

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from riesz.case.report.charts import curve, data_fit, digits, format_interval, interval_bar
from riesz.case.report.content import Content
from riesz.case.run.folder import FILES, MANIFEST, REQUIRED_FILES
from riesz.case.run.measurand import LOG, noise_note
from riesz.prediction.sensors import DataFit
from riesz.problem.unknowns import MEASUREMENT

MOST_ROWS = 500
"""Rows of the table of measurements; the map shows them all."""

BARS = (
    "Bars hold a new measurement at the same place with 95 % probability; those that miss the "
    "measured value are red."
)
TRIANGLES = (
    " Triangles are values that are only known to lie below a limit, and stand at that limit: they "
    "have no residual, and are red where the whole bar lies above."
)
"""How the chart of data against predictions is read."""

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
    "decrement": "posterior standard deviations from there to the most probable place",
    "iterations": "of conjugate gradients in each step",
    "log_density": "log-posterior of the draws, one line a chain",
}
"""What the curves of the histories of fits mean."""


def summary_paragraph(content: Content) -> str:
    """The run in a paragraph."""
    measured = content.measured
    summary = content.manifest["summary"]
    *names, last = content.draws.names
    unknowns = f"{', '.join(names)} and {last}" if names else last
    seconds = summary.get("seconds")
    time = "" if seconds is None else f" It took {format_duration(seconds)}."
    sentences = (
        f"{measured.name} was measured {measurements_text(content)}. From these the engine "
        f"{content.facts.engine} inferred {unknowns}, on a mesh of {summary.get('nodes', '?')} "
        f"nodes.{time} {fit_text(content.met)} Maps and intervals come from "
        f"{content.draws.num_draws} draws of the posterior."
    )
    return escape(sentences)


def measurements_text(content: Content) -> str:
    """How often, and what was found."""
    data, met = content.measurements, content.met
    unit = f" {content.measured.unit}" if content.measured.unit else ""
    exact, limits = data.measured[~data.censored], data.measured[data.censored]
    result = [f"from {digits(exact.min())} to {digits(exact.max())}{unit}"] if exact.size else []
    if limits.size:
        ends = {digits(limits.min()): None, digits(limits.max()): None}
        result.append(f"{met.num_censored} times below a limit of {' to '.join(ends)}{unit}")
    return f"{met.num_observations} times, {' and '.join(result)}"


def fit_text(met: DataFit) -> str:
    """How the data are met."""
    if met.residual_rms is None or met.coverage is None:
        return "None of these has a residual."
    which = "the other measurements" if met.num_censored else "measurements"
    left_out = "Values below a limit have no residual; " if met.num_censored else ""
    text = (
        f"{left_out}{which} lie {met.residual_rms:.2f} noise standard deviations from their "
        f"prediction (root mean square), and {met.coverage:.0%} of them inside their 95 % interval."
    )
    return text[0].upper() + text[1:]


def format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def remarks_list(remarks: Iterable[str]) -> str:
    """What the fit decided from the data, a sentence each; nothing where it decided nothing."""
    items = "".join(f"<li>{escape(sentence(one))}</li>" for one in remarks)
    return f'<p>Decided from the data:</p><ul class="remarks">{items}</ul>' if items else ""


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def warnings_list(warnings: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in warnings)
    return f'<ul class="warnings">{items}</ul>' if items else "<p>There were no warnings.</p>"


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "") -> str:
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
            escape(one.label),
            format_interval(one.prior),
            f"<strong>{format_interval(one.posterior)}</strong>",
            interval_bar(one.prior, one.posterior),
        )
        for one in content.draws.learned
    ]
    head = ("unknown", "prior", "posterior", "prior and posterior")
    return state_note(content) + html_table(head, rows, "stack")


def state_note(content: Content) -> str:
    """Where the equation is not about what was measured, that numbers of it are not either."""
    if content.measured.transform is None:
        return ""
    state = escape(content.measured.state)
    return f"<p>The equation is about the {state}: what it gains, loses or holds is counted so.</p>"


def fit_section(content: Content) -> str:
    data = content.measurements
    words = BARS + (TRIANGLES if data.censored.any() else "")
    return f"<p>{words}</p>" + data_fit(
        data.measured,
        data.predicted,
        data.low,
        data.high,
        label=content.measured.label,
        censored=data.censored,
        logarithmic=content.measured.transform == LOG,
    )


def checkboxes(layers: Iterable[str]) -> str:
    """Of what may lie on the map."""
    box = '<label><input type="checkbox" id="show-{0}"> {0}</label>'
    return "".join(box.format(name) for name in layers)


def marks_note(content: Content) -> str:
    """What signs on the map mean, where that is not plain."""
    sentences = []
    if content.measurements.censored.any():
        sentences.append("Triangles are measurements below a limit, in the colour of that limit.")
    of_noise = noise_note(content.run.observations, content.draws.shifts, MEASUREMENT)
    if of_noise is not None:
        sentences.append(escape(sentence(str(of_noise))))
    if content.flow is not None:
        sentences.append(
            "Arrows of flow are the mean of minus diffusion times the gradient of "
            f"{escape(content.measured.state)}, longer where that is larger."
        )
    return f"<p>{' '.join(sentences)}</p>" if sentences else ""


def measurements_table(content: Content) -> str:
    """Largest residuals first: those are looked for; limits, which have none, last."""
    data = content.measurements
    noise = np.maximum(data.high - data.low, 1e-300)
    order = np.argsort(-np.abs(data.residuals) / noise)[:MOST_ROWS]
    rows = [
        (
            f"{data.points[i, 0]:.7g}, {data.points[i, 1]:.7g}",
            ("below " if data.censored[i] else "") + digits(float(data.measured[i])),
            digits(float(data.predicted[i])),
            "none" if data.censored[i] else digits(float(data.residuals[i])),
            digits(float(data.sd[i])),
        )
        for i in order
    ]
    return html_table(("place", "measured", "predicted", "residual", "sd"), rows, "numbers")


def level_mark(level: str) -> str:
    """A verdict in its colour."""
    return f'<span class="level {level.replace(" ", "-")}">{level}</span>'


def trust_list(content: Content) -> str:
    rows = [
        (
            escape(one.name),
            level_mark(one.level),
            escape(one.found),
            escape(one.words),
        )
        for one in content.verdicts
    ]
    return html_table(("figure", "verdict", "found", "what it means"), rows, "stack")


def curves_section(content: Content) -> str:
    facts = content.facts
    if not facts.curves:
        return f"<p>The engine {escape(facts.engine)} left no curves: nothing was trained.</p>"
    charts = "".join(
        f"<figure>{curve(name, lines)}<figcaption>{escape(caption(name))}</figcaption></figure>"
        for name, lines in facts.curves.items()
    )
    return f'<div class="charts">{charts}</div>'


def caption(name: str) -> str:
    return f"{name}: {CAPTIONS[name]}" if name in CAPTIONS else name


def budget_section(content: Content) -> str:
    if not content.budget:
        return "<p>The equation has no gains and no prescribed values: there is no budget.</p>"
    rows = [
        (escape(line.name), digits(line.mean), f"{digits(line.low)} to {digits(line.high)}")
        for line in content.budget
    ]
    return state_note(content) + html_table(("line", "mean", "95 % interval"), rows, "numbers")


def facts_table(content: Content) -> str:
    manifest = content.manifest
    facts = {
        "command": manifest.get("command"),
        "engine": f"{content.facts.engine}: {manifest['summary'].get('why', '')}",
        "equation": content.facts.equation,
        "seed": manifest.get("seed"),
        "commit": manifest.get("commit"),
        "machine": format_items(manifest.get("machine")),
        "versions": format_items(manifest.get("versions")),
        "files of the run": ", ".join([*REQUIRED_FILES, MANIFEST])
        + f", {len(manifest.get(FILES) or {})} with a digest",
    }
    rows = [(name, escape(str(value))) for name, value in facts.items()]
    return html_table(("what", "value"), rows, "facts")


def format_items(items: Any) -> str:
    if not isinstance(items, dict):
        return "unknown"
    return ", ".join(f"{name} {value}" for name, value in items.items())
