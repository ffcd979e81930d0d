"""Whether values are what the fields of a module are declared to be.

Modules that are built past their `__init__` miss the checks made there. Only annotations of the
kinds that occur in saved modules are understood; anything is taken to fit another.
"""

import dataclasses
import types
from typing import Any, Union, get_args, get_origin

import equinox as eqx
from jaxtyping import jaxtyped


def misfits(module: eqx.Module) -> list[str]:
    """The fields whose values are of other types, or whose shapes do not go together."""
    with jaxtyped("context"):  # one size for each name of a dimension, as among arguments
        return [
            field.name
            for field in dataclasses.fields(module)
            if not all(
                isinstance(value, allowed)
                for value, allowed in expected(getattr(module, field.name), field.type)
            )
        ]


def expected(value: Any, wanted: Any) -> list[tuple[Any, tuple[type, ...]]]:
    """Values in a field, members of tuples one by one, with the types that each may have."""
    members = get_args(wanted)
    if get_origin(wanted) is tuple and members[1:] == (Ellipsis,) and isinstance(value, tuple):
        return [pair for one in value for pair in expected(one, members[0])]
    return [(value, types_in(wanted))]


def types_in(wanted: Any) -> tuple[type, ...]:
    """The types that an annotation stands for."""
    if get_origin(wanted) in (Union, types.UnionType):
        return tuple(kind for member in get_args(wanted) for kind in types_in(member))
    if wanted is float:
        return (float, int)
    kind = get_origin(wanted) or wanted
    return (kind,) if isinstance(kind, type) else (object,)
