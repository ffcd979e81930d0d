"""The table [observations] of a problem file: which rows of a file, and what is made of them."""

import datetime
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, PositiveFloat, model_validator

from riesz.case.table import FileTable, brief, is_finite
from riesz.errors import any_of
from riesz.geometry.crs import is_crs_text

ALLOWED = (
    'give a text, a number, a list of them, or a range such as { min = 1 }; "" is an empty cell'
)
Plain = str | bool | int | float
Filter = Plain | list[Plain] | dict[str, float]
"""What a cell must be: one value, one of several, or a number in a range."""


def as_filter(value: Any) -> Filter:
    if isinstance(value, dict) and value and set(value) <= {"min", "max"}:
        if all(map(is_finite, value.values())):
            return {key: float(bound) for key, bound in value.items()}
    elif (isinstance(value, list) and value and all(map(is_plain, value))) or is_plain(value):
        return value
    raise ValueError(f"is {brief(value)}: {ALLOWED}")


def is_plain(value: Any) -> bool:
    return isinstance(value, str | bool) or is_finite(value)


def as_date(value: Any) -> datetime.date:
    """A date in quotes or, as TOML has it, without."""
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError(f"is {brief(value)}: give a date such as '1960-01-31'")


def as_crs(value: str | None) -> str | None:
    if value is not None and not is_crs_text(value):
        raise ValueError(
            f"is {brief(value)}: give an EPSG code, such as 'EPSG:32612', a PROJ text or WKT"
        )
    return value


Date = Annotated[datetime.date, PlainValidator(as_date)]
CRS = Annotated[str | None, AfterValidator(as_crs)]
Where = dict[str, Annotated[Any, PlainValidator(as_filter)]]


class ObservationsTable(FileTable):
    """What was measured: a file, its columns, which of its rows, and what is made of them."""

    NEEDS = (
        ("from_", "date", "the column of the dates"),
        ("to", "date", "the column of the dates"),
        ("sites", "site", "the column that both tables share"),
        ("sites_where", "sites", "the table that is filtered"),
        ("sd_from_scatter", "aggregate", "there must be readings a site"),
        ("effect_sd", "covariates", "those whose effects it is for"),
        ("curved", "covariates", "those whose effects could bend"),
        ("local_range", "local", "true or 'auto'"),
        ("local_sd", "local", "true or 'auto'"),
    )

    file: str = Field(description="the CSV file, relative to the problem file")
    layer: str | None = None
    crs: CRS = None
    x: str = "x"
    y: str = "y"
    value: str = "value"
    unit: str | None = None
    where: Where = Field(default_factory=dict)
    date: str | None = None
    from_: Date | None = Field(default=None, alias="from")
    to: Date | None = None
    site: str | None = None
    sites: str | None = None
    sites_where: Where = Field(default_factory=dict)
    aggregate: Literal["median", "mean", "last"] | None = None
    sd: str | None = None
    sd_from_scatter: bool = False
    exposure: str | None = None
    trials: str | None = None
    transform: Literal["log"] | None = None
    outside: Literal["refuse", "drop"] = "refuse"
    covariates: list[str] = Field(default_factory=list)
    rasters: dict[str, str] = Field(default_factory=dict)  # of covariates, relative to the file
    log_covariates: list[str] = Field(default_factory=list)
    curved: bool = False  # effects may bend and act upon each other
    effect_sd: PositiveFloat | None = None
    local: bool | Literal["auto"] = False
    local_range: PositiveFloat | None = None
    local_sd: PositiveFloat | None = None

    @model_validator(mode="before")
    @classmethod
    def with_rasters(cls, content: Any) -> Any:
        """Covariates may be a table of rasters, or of true for columns: `{ dist = "dist.tif" }`."""
        if not isinstance(content, dict) or not isinstance(content.get("covariates"), dict):
            if isinstance(content, dict) and "rasters" in content:
                raise ValueError("has the key 'rasters': write covariates = { name = 'file.tif' }")
            return content
        given = content["covariates"]
        for name, file in given.items():
            if file is not True and not isinstance(file, str):
                raise ValueError(
                    f"has the covariate {name!r}, which is {brief(file)}: give the name of a "
                    "raster, or true for a column of the table"
                )
        rasters = {name: file for name, file in given.items() if isinstance(file, str)}
        return content | {"covariates": list(given), "rasters": rasters}

    def faults(self) -> Iterator[str]:
        if self.aggregate == "last" and self.date is None:
            yield "has the key 'aggregate', which needs 'date': the last reading is the latest"
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            yield f"goes from {self.from_} to {self.to}: from must be before to"
        if self.sd is not None and self.sd_from_scatter:
            yield "has both sd and sd_from_scatter: keep one of them"
        if self.over is not None and self.aggregate is not None:
            yield (
                "has aggregate, and a column that values were counted over: add counts up in the "
                "file, one row a site"
            )
        for name in self.covariates:
            if name in (self.value, self.x, self.y):
                yield f"has the covariate {name!r}, which is a column of the values"
            if self.covariates.count(name) > 1:
                yield f"has the covariate {name!r} twice: name it once"
        for name in self.log_covariates:
            if name not in self.covariates:
                known = any_of(self.covariates) if self.covariates else "none"
                yield f"has {name!r} in log_covariates: the covariates are {known}"

    @property
    def over(self) -> str | None:
        """The column of what counts were taken over."""
        return self.exposure or self.trials
