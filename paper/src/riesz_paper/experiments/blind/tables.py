"""What blind problems amount to: silent failures, false alarms, crashes, and words that point.

A silent failure is a fit of which nothing doubtful was said, though a mean is off by more than 0.3
sd or an sd by more than 25 %, beyond Monte-Carlo errors. A false alarm is a fit of which something
was said, though all is right to half of that. Both are counted among the problems whose reference
settled. A fit that says that its time was over before it had any posterior has no answer to judge,
and is no crash.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scipy.stats import binomtest

from riesz.io.store.results import Row

UNSETTLED, CRASH, OUT_OF_TIME = "unsettled", "crash", "out of time"
FLAGGED = ("doubtful", "failed")
GROUPS = ("family", "engine", "verdict")


def is_judged(row: Row) -> bool:
    return row["verdict"] not in (CRASH, OUT_OF_TIME) and row["reference"] != UNSETTLED


def is_silent(row: Row) -> bool:
    return is_judged(row) and row["verdict"] == "good" and bool(row["is_wrong"])


def is_false_alarm(row: Row) -> bool:
    return is_judged(row) and row["verdict"] in FLAGGED and bool(row["is_right"])


def share(count: int, of: int) -> list[float]:
    """A share with its 95 % interval (Clopper & Pearson 1934)."""
    if of == 0:
        return [0.0, 0.0, 1.0]
    interval = binomtest(count, of).proportion_ci(0.95, "exact")
    return [count / of, float(interval.low), float(interval.high)]


def counted(rows: Sequence[Row]) -> dict[str, Any]:
    """Of some problems."""
    judged = [row for row in rows if is_judged(row)]
    plain = [row["coverage95"] for row in rows if row["misspecified"] is False]
    covered = [one for one in plain if one is not None]
    return {
        "problems": len(rows),
        "judged": len(judged),
        "silent": sum(map(is_silent, rows)),
        "false_alarms": sum(map(is_false_alarm, rows)),
        "flagged": sum(row["verdict"] in FLAGGED for row in rows),
        "crashes": sum(row["verdict"] == CRASH for row in rows),
        "coverage95": sum(covered) / len(covered) if covered else None,
        "seconds": median([row["seconds"] for row in rows]),
    }


def median(values: Sequence[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def summarise(rows: Sequence[Row]) -> Mapping[str, Any]:
    """All together, and by family, engine and verdict."""
    every = counted(rows)
    broken = [row for row in rows if row["misspecified"]]
    plain = [row for row in rows if row["misspecified"] is False]
    asked = [row for row in broken if row["points_at_break"] is not None]
    spoken_of = [row for row in plain if row.get("findings") is not None]
    found: dict[str, Any] = {
        **every,
        "silent_share": share(every["silent"], every["judged"]),
        "false_alarm_share": share(every["false_alarms"], every["judged"]),
        "crash_share": share(every["crashes"], len(rows)),
        "misspecified": len(broken),
        "pointed_at": sum(bool(row["points_at_break"]) for row in asked),
        "pointed_share": share(sum(bool(row["points_at_break"]) for row in asked), len(asked)),
        "words_on_right_models": sum(row["findings"] > 0 for row in spoken_of),
        "words_on_right_share": share(
            sum(row["findings"] > 0 for row in spoken_of), len(spoken_of)
        ),
    }
    for name in GROUPS:
        found[f"by_{name}"] = grouped(rows, name)
    found["by_break"] = {
        str(kind): {
            "problems": len(own),
            "pointed_at": sum(bool(row["points_at_break"]) for row in own),
        }
        for kind, own in groups(asked, "break").items()
    }
    return found


def groups(rows: Sequence[Row], name: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return dict(sorted(found.items(), key=lambda item: str(item[0])))


def grouped(rows: Sequence[Row], name: str) -> dict[str, Any]:
    return {str(value): counted(own) for value, own in groups(rows, name).items()}


COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "problems": lambda one: str(one["problems"]),
    "judged": lambda one: str(one["judged"]),
    "silent failures": lambda one: told(one["silent"], one["judged"]),
    "false alarms": lambda one: told(one["false_alarms"], one["judged"]),
    "crashes": lambda one: str(one["crashes"]),
    "states in 95 %": lambda one: (
        "" if one["coverage95"] is None else f"{100 * one['coverage95']:.0f} %"
    ),
    "median s": lambda one: f"{one['seconds']:.0f}",
}


def told(count: int, of: int) -> str:
    """A count with the interval of its share."""
    if of == 0:
        return "0"
    _, low, high = share(count, of)
    return f"{count} ({100 * low:.1f} to {100 * high:.1f} %)"


def table(summary: Mapping[str, Any]) -> str:
    """By family, engine and verdict, in Markdown."""
    lines = [["", *COLUMNS], ["---", *["---:"] * len(COLUMNS)]]
    lines.append(["all", *(column(summary) for column in COLUMNS.values())])
    for name in GROUPS:
        for value, own in summary[f"by_{name}"].items():
            lines.append([f"{name} {value}", *(column(own) for column in COLUMNS.values())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def spoken(summary: Mapping[str, Any]) -> str:
    """The table, and what words said of models that were wrong and right."""
    words = [
        f"breaks pointed at: {told(summary['pointed_at'], summary['misspecified'])} of "
        f"{summary['misspecified']}",
        *(
            f"  {kind}: {own['pointed_at']} of {own['problems']}"
            for kind, own in summary["by_break"].items()
        ),
        f"right models with words against them: {summary['words_on_right_models']}",
    ]
    return table(summary) + "\n" + "\n".join(words)
