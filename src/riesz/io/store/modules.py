"""Immutable modules as JSON and arrays, and back, without pickle.

A module becomes the name of its class and its fields; arrays are named by where they stand. Only
classes and functions from a table are written and read, and what is read is built field by field,
so that nothing in a file is ever executed.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

import equinox as eqx
import jax
import numpy as np
from jaxtyping import jaxtyped

from riesz.arrays import on_device
from riesz.errors import FileFormatError, RieszError

Names = Mapping[str, Any]
"""Names, and the classes and functions they stand for."""

Plain = (bool, int, float, str, type(None))


def to_plain(value: Any, path: str, arrays: dict[str, np.ndarray], names: Names) -> Any:
    """JSON for a value; its arrays are added to `arrays`, under names that begin with `path`."""
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        arrays[path] = np.asarray(value)
        return {"array": path, "device": isinstance(value, jax.Array)}
    if isinstance(value, Plain):
        # JSON has no word for infinity.
        odd = isinstance(value, float) and not math.isfinite(value)
        return {"float": str(value)} if odd else value
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [to_plain(v, f"{path}/{i}", arrays, names) for i, v in enumerate(value)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {k: to_plain(v, f"{path}/{k}", arrays, names) for k, v in value.items()}}
    known = {member: name for name, member in names.items()}
    if callable(value) and not isinstance(value, eqx.Module) and value in known:
        return {"function": known[value]}
    kind: Any = type(value)
    if kind not in known:
        raise RieszError(
            f"a {kind.__name__} at {path} cannot be saved: only {', '.join(names)} can, and "
            "arrays, numbers and texts within them."
        )
    fields = {
        field.name: to_plain(getattr(value, field.name), f"{path}/{field.name}", arrays, names)
        for field in dataclasses.fields(kind)
    }
    return {"class": known[kind], "fields": fields}


def from_plain(content: Any, path: str, arrays: Mapping[str, np.ndarray], names: Names) -> Any:
    """The value again, which stands at `path`; arrays must be the ones that were saved there."""
    if isinstance(content, Plain):
        return content
    match content:
        case {"array": str(name), "device": bool(is_ours)} if name == path and name in arrays:
            return on_device(arrays[name]) if is_ours else arrays[name]
        case {"tuple": list(parts)}:
            return tuple(from_plain(v, f"{path}/{i}", arrays, names) for i, v in enumerate(parts))
        case {"list": list(parts)}:
            return [from_plain(v, f"{path}/{i}", arrays, names) for i, v in enumerate(parts)]
        case {"dict": dict(parts)}:
            return {k: from_plain(v, f"{path}/{k}", arrays, names) for k, v in parts.items()}
    return member_by_name(content, path, arrays, names)


def member_by_name(content: Any, path: str, arrays: Mapping[str, np.ndarray], names: Names) -> Any:
    match content:
        case {"float": "inf" | "-inf" | "nan" as word}:
            return float(word)
        case {"function": str(name)} if name in names:
            return names[name]
        case {"class": str(name), "fields": dict(fields)} if is_module(names.get(name)):
            values = {k: from_plain(v, f"{path}/{k}", arrays, names) for k, v in fields.items()}
            return rebuilt(names[name], path, values)
    raise FileFormatError(
        f"{str(content)[:80]!r} at {path} is nothing that was saved by this version."
    )


def is_module(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, eqx.Module)


def rebuilt(kind: type[eqx.Module], path: str, values: dict[str, Any]) -> eqx.Module:
    """A module from its fields, past its `__init__`, which may take something else altogether."""
    own = dataclasses.fields(kind)
    wanted = {field.name for field in own}
    # Fields that came later have what they would have had.
    later = {one.name: one.default for one in own if one.default is not dataclasses.MISSING}
    values = later | values
    if set(values) != wanted:
        differing = ", ".join(sorted(wanted ^ set(values)))
        raise FileFormatError(
            f"a saved {kind.__name__} and that of this version differ in {differing}: fit again."
        )
    module = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(module, name, value)
    wrong = misfits(module)
    if wrong:
        raise FileFormatError(
            f"the saved {kind.__name__} at {path} is damaged: {', '.join(wrong)} of a wrong type "
            "or shape."
        )
    return module


def misfits(module: eqx.Module) -> list[str]:
    """The fields whose values are of other types, or whose shapes do not go together.

    Modules that are built past their `__init__` miss the checks made there. Only annotations of
    the kinds that occur in saved modules are understood; anything is taken to fit another.
    """
    with jaxtyped("context"):  # one size for each name of a dimension, as among arguments
        return [
            field.name
            for field in dataclasses.fields(module)
            if not all(
                isinstance(value, allowed)
                for value, allowed in expected_types(getattr(module, field.name), field.type)
            )
        ]


def expected_types(value: Any, wanted: Any) -> list[tuple[Any, tuple[type, ...]]]:
    """Values in a field, members of tuples one by one, with the types that each may have."""
    members = get_args(wanted)
    if get_origin(wanted) is tuple and members[1:] == (Ellipsis,) and isinstance(value, tuple):
        return [pair for one in value for pair in expected_types(one, members[0])]
    return [(value, types_in(wanted))]


def types_in(wanted: Any) -> tuple[type, ...]:
    """The types that an annotation stands for."""
    if get_origin(wanted) in (Union, types.UnionType):
        return tuple(kind for member in get_args(wanted) for kind in types_in(member))
    if wanted is float:
        return (float, int)
    kind = get_origin(wanted) or wanted
    return (kind,) if isinstance(kind, type) else (object,)
