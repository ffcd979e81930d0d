"""The tables [[wells]] and [[rivers]] of a problem file: what enters and leaves, and where."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator

from riesz.case.table import Table, is_finite, shown

AXES, RATE = ("x", "y"), "rate"
"""Keys of a well, and the columns that they name unless told otherwise."""


def as_number_or_name(value: Any) -> float | str:
    if is_finite(value):
        return float(value)
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"is {shown(value)}: give a finite number, or a name in quotes")


NumberOrName = Annotated[Any, PlainValidator(as_number_or_name)]
"""A number, or the name of a column or an unknown; which of them, the key says."""


class WellTable(Table):
    """A point at which something is put in or, with a negative rate, taken out; or many in a file.

    In a point's table `rate` may name an unknown; beside `file`, all three name columns.
    """

    file: str | None = None
    layer: str | None = None
    x: NumberOrName = None
    y: NumberOrName = None
    rate: NumberOrName = None

    @model_validator(mode="after")
    def check(self):
        for key in (*AXES, RATE):
            value = getattr(self, key)
            if self.file is not None and isinstance(value, float):
                raise ValueError(
                    f"has a file and {key} = {value:g}: with a file, {key} names one of its "
                    "columns; write the point as [[wells]] of its own"
                )
            if self.file is None and value is None:
                raise ValueError(f"lacks the key {key!r}: give a number, or name a table by 'file'")
            if self.file is None and key != RATE and isinstance(value, str):
                raise ValueError(
                    f"has {key} = {value!r}, which is no number: columns need the key 'file'"
                )
        if self.file is None and self.layer is not None:
            raise ValueError("has the key 'layer', which needs 'file': a map layer of points")
        if self.file is None and isinstance(self.rate, str) and not self.rate.isidentifier():
            raise ValueError(
                f"has rate = {self.rate!r}: give a finite number, or the name of an unknown"
            )
        return self

    def columns(self) -> tuple[str, str, str]:
        """Of the coordinates and the rate, in the file."""
        x, y, rate = (str(getattr(self, key) or key) for key in (*AXES, RATE))
        return x, y, rate

    def unknown(self) -> str | None:
        """The unknown that is the rate of a point, if it is one."""
        return self.rate if self.file is None and isinstance(self.rate, str) else None


class RiverTable(Table):
    """Lines along which conductance * (stage - u) enters the domain, by length.

    A text is a column of the map for `stage`, and an unknown for `conductance`.
    """

    file: str = Field(description="the map layer of its lines, relative to the problem file")
    layer: str | None = None
    stage: NumberOrName = Field(description="a number, or a column of the map")
    conductance: NumberOrName = Field(description="a positive number, or the name of an unknown")

    @model_validator(mode="after")
    def check(self):
        wanted = self.conductance
        is_good = wanted.isidentifier() if isinstance(wanted, str) else wanted > 0
        if not is_good:
            raise ValueError(
                f"has conductance = {wanted!r}: give a positive number, or the name of an unknown"
            )
        return self

    def unknown(self) -> str | None:
        """The unknown that is the conductance, if it is one."""
        return self.conductance if isinstance(self.conductance, str) else None
