"""Small problem files: a rectangle, few observations, one unknown; each part may be replaced."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

WELLS = "x,y,value\n0.5,0.5,0.6\n0.75,0.25,0.5\n"
SIZE = {"rectangle": {"lower": [0, 0], "upper": [1, 1]}, "max_edge": 0.4, "levels": 2}
LOGNORMAL = {"prior": "lognormal", "median": 1.0, "log_sd": 0.5}
NORMAL = {"prior": "normal", "mean": 0.0, "sd": 1.0}


def rectangle(upper: list[float], *, max_edge: float, levels: int = 1) -> dict[str, Any]:
    """A domain from the origin to this corner."""
    return {"rectangle": {"lower": [0, 0], "upper": upper}, "max_edge": max_edge, "levels": levels}


def problem_toml(
    *,
    crs: str | None = None,
    domain: Mapping[str, Any] = SIZE,
    observations: Mapping[str, Any] | None = None,
    noise: float | str | Mapping[str, Any] = 0.05,
    equation: Mapping[str, Any] | None = None,
    boundary: Mapping[str, Any] | None = None,
    unknowns: Mapping[str, Mapping[str, Any]] | None = None,
    engine: Mapping[str, Mapping[str, Any]] | None = None,
    engine_name: str | None = None,
) -> str:
    """The text of a problem file.

    Without arguments: the logarithm of a diffusivity is unknown on the unit square, where a source
    of one flows out on the left. `noise` and the entries of `boundary` may be the one number or
    name that most files give there.
    """
    equation = {"diffusion": "a", "source": 1.0} if equation is None else equation
    boundary = {"left": 0.0} if boundary is None else boundary
    unknowns = {"a": LOGNORMAL} if unknowns is None else unknowns
    conditions = {name: as_table(one, "value") for name, one in boundary.items()}
    parts = [
        "" if crs is None else f"crs = {toml(crs)}\n",
        table("domain", domain),
        table("observations", {"file": "wells.csv"} | dict(observations or {})),
        table("noise", as_table(noise, "sd")),
        table("equation", equation),
        *(table(f"boundary.{name}", one) for name, one in conditions.items()),
        *(table(f"unknowns.{name}", one) for name, one in unknowns.items()),
        "" if engine_name is None else table("engine", {"name": engine_name}),
        *(table(f"engine.{name}", one) for name, one in (engine or {}).items()),
    ]
    return "\n".join(part for part in parts if part)


def written(
    folder: Path, text: str | None = None, wells: str = WELLS, *, data: str = "wells.csv"
) -> Path:
    """Write a problem file and its observations into a folder; returns the problem file."""
    (folder / data).write_text(wells)
    path = folder / "problem.toml"
    path.write_text(problem_toml() if text is None else text)
    return path


def as_table(value: Any, key: str) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {key: value}


def table(name: str, values: Mapping[str, Any]) -> str:
    return "".join([f"[{name}]\n", *(f"{key} = {toml(one)}\n" for key, one in values.items())])


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return value.isoformat()
    return f'"{value}"' if isinstance(value, str) else repr(value)
