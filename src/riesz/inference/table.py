"""Methods and densities by name: what adding one touches beside its own file."""

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal, NamedTuple

from riesz.density.base import AbstractDensityKind
from riesz.density.engine import AbstractEngine, Engine
from riesz.errors import RieszError, any_of, nearest
from riesz.method.base import AbstractMethod
from riesz.method.settings import Settings
from riesz.notes import Note
from riesz.posterior.posterior import EXACT

AUTO, AMORTISE, SURROGATE = "auto", "amortise", "surrogate"

MethodName = Literal["auto", "laplace", "gaussian-vi", "mcmc", "amortise"]
MeshErrorUse = Literal["correct", "report", "off"]
"""What is done about the error of the discretisation."""

DensityName = Literal["exact", "marginal", "reduced-basis", "surrogate", "relaxed"]
"""For editors, which offer them."""

METHODS: Mapping[str, str] = {
    "laplace": "riesz.method.laplace.Laplace",
    "gaussian-vi": "riesz.method.gaussian_vi.GaussianVI",
    "mcmc": "riesz.method.mcmc.mcmc.MCMC",
    AMORTISE: "riesz.amortise.engine.Amortise",
}
DENSITIES: Mapping[str, str] = {
    EXACT: "riesz.density.exact.Exact",
    "marginal": "riesz.density.marginal.marginal.Marginal",
    "reduced-basis": "riesz.density.reduced_basis.ReducedBasis",
    SURROGATE: "riesz.density.surrogate.surrogate.Surrogate",
    "relaxed": "riesz.density.relaxed.relaxed.Relaxed",
}
"""Their classes, by module."""

RENAMED: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "variational": ("gaussian-vi", EXACT, {}),
    "sample": ("mcmc", EXACT, {}),
    "nuts": ("mcmc", EXACT, {"kernel": "nuts"}),
    "reduced": ("mcmc", "reduced-basis", {}),
    "emulate": ("gaussian-vi", "surrogate", {}),
    "relax": ("gaussian-vi", "relaxed", {}),
    "conditional": ("laplace", "marginal", {}),
}
"""Engines of earlier versions: a method, a density, and settings of the method."""

RENAMED_SETTINGS = {"num_others": "num_values"}

UNUSED_BY_AUTO = {"nuts", "reduced", "relax"}
"""Engines of earlier versions that auto never took: their tables were for another name."""


def class_of(name: str) -> type[Settings]:
    """Imported when asked for: all of them take a third of a second, and a command needs two."""
    module, _, own = {**METHODS, **DENSITIES}[name].rpartition(".")
    return getattr(import_module(module), own)


def check_engine(name: Any, density: Any = None) -> None:
    """Raise where there is no method, or no density, of that name; one may name both."""
    if isinstance(name, str) and "(" in name:
        name, _, inside = name.partition("(")
        density = inside.rstrip(")")
    check_known(name, "method", (AUTO, *METHODS), "rz.MCMC()")
    if density is not None:
        check_known(density, "density", tuple(DENSITIES), "rz.Surrogate()")


def check_known(name: Any, what: str, known: tuple[str, ...], example: str) -> None:
    if not isinstance(name, str):
        raise RieszError(
            f"the {what} is {name!r}: give a value such as {example}, or a name, {any_of(known)}."
        )
    if name in RENAMED and what == "method":
        raise RieszError(f"the engine {name!r} is now {python_call(name)}.")
    if name not in known:
        raise RieszError(
            f"there is no {what} {name!r}: {nearest(name, known)}It may be {any_of(known)}."
        )


def python_call(name: str) -> str:
    """What was an engine of an earlier version, as one writes it today."""
    method, density, settings = RENAMED[name]
    inside = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    own = METHODS[method].rpartition(".")[2]
    call = f"rz.{own}({inside})"
    if density == EXACT:
        return call
    return f"{call} with density=rz.{DENSITIES[density].rpartition('.')[2]}()"


def build_method(name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """A method by its name and settings, as problem files write them."""
    check_engine(name)
    if name == AUTO:
        raise RieszError(
            f"auto chooses among methods: name the one that is meant, {any_of(METHODS)}."
        )
    settings = dict(settings or {})
    if isinstance(settings.get("start"), str):
        settings["start"] = build_method(settings["start"])
    return class_of(name)(**settings)


def build_density(name: str, settings: Mapping[str, Any] | None = None) -> AbstractDensityKind:
    check_known(name, "density", tuple(DENSITIES), "rz.Surrogate()")
    result = class_of(name)(**(settings or {}))
    assert isinstance(result, AbstractDensityKind)
    return result


def engine_of(
    method: AbstractMethod | AbstractEngine | str,
    density: AbstractDensityKind | str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> AbstractEngine:
    """A method on a density, by values or by names with their settings.

    The names may be those of a posterior's engine, such as `"mcmc(reduced-basis)"`.
    """
    own = settings or {}
    if isinstance(method, str):
        name, _, inside = method.partition("(")
        if density is None and inside:
            density = inside.rstrip(")")
        method = build_method(name, own.get(name))
    if isinstance(density, str):
        density = build_density(density, own.get(density))
    if isinstance(method, AbstractEngine):
        if density is not None:
            raise RieszError(f"{method.name} has a density of its own: leave density out.")
        return method
    if not isinstance(method, AbstractMethod):
        check_engine(method)
    assert isinstance(method, AbstractMethod)
    if density is None:
        return Engine(method, build_density(EXACT, own.get(EXACT)))
    if not isinstance(density, AbstractDensityKind):
        check_known(density, "density", tuple(DENSITIES), "rz.Surrogate()")
    return Engine(method, density)


def with_settings(engine: AbstractEngine, settings: Mapping[str, Mapping[str, Any]]) -> Any:
    """An engine that `auto` takes; a method whose settings its density would not read has none."""
    own = engine_of(engine.name, settings=settings)
    if isinstance(own, Engine):
        with suppress(RieszError):
            own.density.check_method(own.method)
            return own
        return Engine(build_method(own.method.name), own.density)
    return own


class Renamed(NamedTuple):
    """An engine of an earlier version in today's words."""

    method: str
    density: str
    settings: dict[str, dict[str, Any]]  # of both


def rename(old: str, settings: Mapping[str, Any]) -> Renamed:
    """With its settings, each with the method or the density that has it now."""
    method, density, given = RENAMED[old]
    own = {RENAMED_SETTINGS.get(key, key): value for key, value in settings.items()}
    over = own.pop("over", None)
    if over == "nuts":
        method, given = "mcmc", {"kernel": "nuts"}
    elif over == "mode":
        own["at_mode"] = True
    known = class_of(density).model_fields
    of_density = {key: value for key, value in own.items() if key in known}
    of_method = {key: value for key, value in own.items() if key not in known}
    if isinstance(of_method.get("start"), str) and of_method["start"] in RENAMED:
        of_method["start"] = RENAMED[of_method["start"]][0]
    return Renamed(method, density, {method: given | of_method, density: of_density})


def rename_table(table: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """An [engine] table with engines of earlier versions in today's words, and what to write.

    Where several had settings of what is one method or one density now, those of the engine that
    is named are taken.
    """
    result: dict[str, Any] = {key: own for key, own in table.items() if key not in RENAMED}
    name, notes = table.get("name", AUTO), ()
    if isinstance(result.get("laplace"), Mapping) and "linear_solver" in result["laplace"]:
        laplace = dict(result["laplace"])
        solver = {"linear_solver": laplace.pop("linear_solver")}
        result |= {"laplace": laplace, EXACT: solver | result.get(EXACT, {})}
    if name in RENAMED:
        named = rename(name, table.get(name) or {})
        result |= {"name": named.method, "density": named.density}
        for part, own in named.settings.items():
            result[part] = {**result.get(part, {}), **own}
        words = {"old": name, "method": named.method, "density": named.density}
        notes = (Note("engine_renamed", **words),)
    for old in RENAMED:
        is_used = name != AUTO or old not in UNUSED_BY_AUTO
        if old != name and is_used and isinstance(table.get(old), Mapping):
            others = rename(old, table[old]).settings
            result = {part: own for part, own in others.items() if own} | result
    return result, notes
