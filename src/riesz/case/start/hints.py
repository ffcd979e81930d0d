"""What is said of a table before a first problem file is written for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Hints:
    """What was said of a table; what is None is guessed."""

    x: str | None = None
    y: str | None = None
    value: str | None = None
    crs: str | None = None  # of the table
    polygon_crs: str | None = None
    layer: str | None = None  # of a map, or a sheet
    sites: Path | None = None  # a table of where the sites are
    site: str | None = None  # readings of one site become one observation
    where: Mapping[str, str] = field(default_factory=dict)  # rows whose cells hold these words
    sites_where: Mapping[str, str] = field(default_factory=dict)
    covariates: tuple[str, ...] = ()
    log: bool = False
    recharge: Path | None = None  # tables of what drives a model in time
    wells: Path | None = None

    @property
    def in_time(self) -> bool:
        return self.recharge is not None or self.wells is not None
