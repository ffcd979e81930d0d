"""Tables of a problem file, checked key by key, with errors that tell what to write instead."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, model_validator

from riesz.errors import FileFormatError, any_of, nearest
from riesz.io.store.files import read_bytes

EXPECTED = {
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
}
"""What is allowed, for each kind of error that pydantic tells apart."""


class FileTable(BaseModel):
    """A table of a problem file: nothing unknown, nothing of another type, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    NEEDS: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    """Keys that make no sense without another: that one, and what it is or what to do."""

    @model_validator(mode="before")
    @classmethod
    def check_keys(cls, content: Any) -> Any:
        """A misspelt key is both unknown and missing: only the first is worth saying."""
        if not isinstance(content, Mapping):
            return content
        known = {field.alias or name: field for name, field in cls.model_fields.items()}
        for key in content:
            if key not in known:
                raise ValueError(
                    f"has the key {str(key)!r}, which is not known: {nearest(str(key), known)}"
                    f"It may hold {any_of(known)}"
                )
        for key, field in known.items():
            if field.is_required() and key not in content:
                raise ValueError(f"lacks the key {key!r}: {field.description or 'give it a value'}")
        return content

    @model_validator(mode="after")
    def check_needs_and_faults(self):
        fields = type(self).model_fields
        for key, other, advice in self.NEEDS:
            if self.has(key) and not self.has(other):
                name = fields[key].alias or key
                raise ValueError(f"has the key {name!r}, which needs {other!r}: {advice}")
        for text in self.faults():
            raise ValueError(text)
        return self

    def faults(self) -> Iterable[str]:
        """What is wrong with keys together, each with what to do: the first is raised."""
        return ()

    def has(self, key: str) -> bool:
        """Whether a key says something: false, and nothing, are as if it were left out."""
        value = getattr(self, key)
        return not (value is None or value is False or value in ([], {}))


def faults_of_kind(table: FileTable, kind: str, keys: Sequence[str]) -> Iterator[str]:
    """Keys of a table that go with another kind."""
    for key in sorted(table.model_fields_set - {"kind", *keys}):
        yield f"has the key {key!r}, which kind = {kind!r} does not take: it takes {any_of(keys)}"


def under(place: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a table holds, by the keys of the one around it."""
    return {f"{place}.{key}": value for key, value in values.items()}


Kind = TypeVar("Kind", bound=FileTable)

Decisions = Mapping[str, Any]
"""What a problem file leaves open and was found from its data, by the keys of the file."""


def as_finite_numbers(value: Any) -> float | list[float]:
    if is_finite(value):
        return float(value)
    if isinstance(value, list) and value and all(map(is_finite, value)):
        return [float(one) for one in value]
    raise ValueError(f"is {brief(value)}: give a finite number, or a list of them")


def as_coefficient_value(value: Any) -> Any:
    """A number, a vector, a tensor, or the name of an unknown."""
    if isinstance(value, str) and value.isidentifier():
        return value
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        return [as_finite_numbers(row) for row in value]
    try:
        return as_finite_numbers(value)
    except ValueError:
        raise ValueError(
            f"is {brief(value)}: give a finite number, a list of them, or the name of an unknown"
        ) from None


def is_finite(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floating-point ones
        return False


Numbers = Annotated[float | list[float], PlainValidator(as_finite_numbers)]
"""One number, or one for each component of a vector."""

Coefficient = Annotated[Any, PlainValidator(as_coefficient_value)]
"""What may stand in an equation."""


def parse_table(kind: type[Kind], content: Mapping[str, Any], path: Path) -> Kind:
    """A table from what was given in or for a file, validated."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise FileFormatError(f"{path}: {error_text(error, content)}") from None


def toml_in(
    path: Path, content: bytes | None = None, decided: Decisions = MappingProxyType({})
) -> dict[str, Any]:
    """What a file holds, or its `content`, with what was `decided` in place of what it says."""
    try:
        result = tomllib.loads((read_bytes(path) if content is None else content).decode())
    # Not only TOMLDecodeError: a whole number of thousands of digits is a plain ValueError.
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not TOML: {error}.") from None
    for key, value in decided.items():
        result[key] = result.get(key, {}) | value if isinstance(value, dict) else value
    return result


def error_text(error: ValidationError, content: Mapping[str, Any]) -> str:
    """The first thing that is wrong, and how many more there are."""
    errors = error.errors(include_url=False)
    first, more = errors[0], len(errors) - 1
    place = ".".join(place_in(content, first["loc"]))
    text = f"{place or 'the file'} {complaint(first)}"
    return f"{text} (and {more} more)" if more else text


def place_in(content: Any, location: tuple[int | str, ...]) -> list[str]:
    """The keys on the way to an error; pydantic's own words for alternatives are left out.

    Entries of lists are counted from one, as lines and rows are.
    """
    parts = []
    for part in location:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            continue
        parts.append(str(part + 1 if isinstance(part, int) else part))
    return parts


def complaint(error: Mapping[str, Any]) -> str:
    """What was found, and what is allowed."""
    context, result = error.get("ctx", {}), brief(error["input"])
    match error["type"]:
        case "value_error":
            text = str(context["error"])
        case "union_tag_not_found":
            text = f"lacks the key {context['discriminator']}: say which kind it is"
        case "union_tag_invalid":
            key = context["discriminator"].strip("'")
            text = f"has the {key} {choice_text(context['tag'], context['expected_tags'])}"
        case "literal_error":
            text = f"is {choice_text(error['input'], context['expected'])}"
        case "greater_than":
            text = f"is {result}: give a number above {context['gt']:g}"
        case "too_short" | "too_long":
            wanted = context.get("min_length", context.get("max_length"))
            text = f"has {context['actual_length']} entries: give {wanted}"
        case "list_type" if isinstance(error["input"], Mapping):
            text = "is one table: write its name in two brackets, once for each entry"
        case kind:
            text = f"is {result}: give {EXPECTED.get(kind, error['msg'])}"
    return f"{text}."


def choice_text(value: Any, allowed: str) -> str:
    """A word that is none of those allowed, which pydantic lists in quotes."""
    words = re.findall(r"'([^']*)'", allowed)
    return f"{brief(value)}: {nearest(str(value), words)}It may be {any_of(words)}"


def brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def as_number_or_name(value: Any) -> float | str:
    if is_finite(value):
        return float(value)
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"is {brief(value)}: give a finite number, or a name in quotes")


NumberOrName = Annotated[Any, PlainValidator(as_number_or_name)]
"""A number, or the name of a column or an unknown; which of them, the key says."""


def as_size(value: Any) -> float | str:
    if is_finite(value) and value > 0:
        return float(value)
    if isinstance(value, str) and value.isidentifier():
        return value
    raise ValueError(f"is {brief(value)}: give a positive number, or the name of an unknown")


Size = Annotated[Any, PlainValidator(as_size)]
"""A positive number, or the name of an unknown."""
