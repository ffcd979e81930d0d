"""What was understood of wells and rivers, in plain words and as numbers."""

from typing import Any

import numpy as np

from riesz.case.file.problem import Case
from riesz.io.maps.crs import length_unit

LENGTHS = {"m": (1e3, "km"), "km": (1.0, "km"), "ft": (5280.0, "miles")}
"""What lengths are told in, by the unit of the coordinates."""


def wells_lines(case: Case) -> list[str]:
    """How many there are, where they were found, and what they put in together."""
    known = [one for one in case.wells if one.unknown is None]
    found: dict[str, int] = {}
    for one in known:
        found[one.columns.path.name] = found.get(one.columns.path.name, 0) + one.count
    lines = []
    if known:
        places = ", ".join(f"{count} in {name}" for name, count in found.items())
        count = sum(found.values())
        lines.append(f"{counted(count)} ({places}) with a total rate of {total_rate(case):.6g}")
    names = [one.unknown for one in case.wells if one.unknown is not None]
    if names:
        lines.append(f"{counted(len(names))} of unknown rate: {', '.join(names)}")
    return lines


def counted(count: int) -> str:
    return f"{count} well{'' if count == 1 else 's'}"


def total_rate(case: Case) -> float:
    """Of the wells whose rates are known."""
    return float(sum(np.sum(one.rates) for one in case.wells if one.unknown is None))


def rivers_lines(case: Case) -> list[str]:
    lines = []
    for one, table in zip(case.rivers, case.tables.rivers, strict=True):
        bed = one.conductance
        told = f"unknown {bed!r}" if isinstance(bed, str) else f"{bed:.6g}"
        lines.append(
            f"{table.file}: {length_text(case, one.length)} inside the domain, mean stage "
            f"{one.mean_stage:.6g}, conductance {told}"
        )
    return lines


def length_text(case: Case, length: float) -> str:
    unit = length_unit(case.tables.crs)
    if unit not in LENGTHS:
        return f"{length:.4g} in units of the coordinates"
    size, name = LENGTHS[unit]
    return f"{length / size:,.4g} {name}"


def exchange_numbers(case: Case) -> dict[str, Any]:
    """The same for programs."""
    return {
        "wells": {
            "known": sum(one.count for one in case.wells if one.unknown is None),
            "total_rate": total_rate(case),
            "unknown_rates": [one.unknown for one in case.wells if one.unknown is not None],
        },
        "rivers": [
            {
                "file": table.file,
                "length": one.length,
                "mean_stage": one.mean_stage,
                "conductance": one.conductance,
            }
            for one, table in zip(case.rivers, case.tables.rivers, strict=True)
        ],
    }
