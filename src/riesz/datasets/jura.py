"""Heavy metals in the topsoil of the Swiss Jura: a benchmark of geostatistics.

Sources: Atteia, Dubois & Webster (1994), Environmental Pollution 86; Webster, Atteia & Dubois
(1994), European Journal of Soil Science 45; split by Goovaerts (1997), Geostatistics for Natural
Resources Evaluation.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from riesz.errors import FileFormatError, RieszError, any_of, nearest
from riesz.io.tables.layers import TextTable, csv_table, read_csv

METALS = ("Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn")
CATEGORIES = ("landuse", "rock")
PLACES = ("x_km", "y_km")
SETS = ("train", "validation")
FOLDER = "jura_files"

SECONDARIES = {
    "Cd": ("Pb", "Ni", "Zn"),
    "Cu": ("Ni", "Zn"),
    "Pb": ("Cu", "Ni", "Zn"),
    "Co": ("Ni", "Zn"),
}
"""The metals that are known at the validation points too, by the one that is predicted there."""


@dataclass(frozen=True, eq=False)
class JuraSamples:
    """Places in km, categories of each, and concentrations in mg/kg."""

    points: Float[np.ndarray, "sample 2"]
    categories: Mapping[str, tuple[str, ...]]
    metals: Mapping[str, Float[np.ndarray, " sample"]]
    is_training: Bool[np.ndarray, " sample"]
    is_built_in: bool = False

    def __len__(self) -> int:
        return len(self.points)

    def of(self, names: Sequence[str]) -> Float[np.ndarray, "sample metal"]:
        """Concentrations of some metals, one a column; all of them must have been measured."""
        for name in names:
            if name not in self.metals:
                known = tuple(self.metals)
                raise RieszError(
                    f"there is no metal {name!r}: {nearest(name, known)}The samples have "
                    f"{any_of(known)}."
                )
        columns = np.stack([self.metals[name] for name in names], axis=1)
        missing = np.argwhere(np.isnan(columns))
        if len(missing):
            row, column = missing[0]
            raise RieszError(
                f"{names[column]} was not measured at {len(np.unique(missing[:, 0]))} samples, "
                f"first sample {row}: leave those out, or choose other metals."
            )
        return columns

    def subset(self, chosen: Bool[np.ndarray, " sample"]) -> "JuraSamples":
        """Some of the samples."""
        return JuraSamples(
            self.points[chosen],
            {n: tuple(np.array(v)[chosen].tolist()) for n, v in self.categories.items()},
            {name: values[chosen] for name, values in self.metals.items()},
            self.is_training[chosen],
            self.is_built_in,
        )


@dataclass(frozen=True, eq=False)
class JuraGrid:
    """Places that cover the sampled region, in km, with their categories."""

    points: Float[np.ndarray, "place 2"]
    categories: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def jura() -> JuraSamples:
    """The 359 samples; 259 are for training, 100 for validation."""
    return dataclasses.replace(samples_in(table_in_package("jura.csv")), is_built_in=True)


@lru_cache(maxsize=1)
def jura_grid() -> JuraGrid:
    """5,957 places, 50 m apart."""
    table = table_in_package("jura_grid.csv.gz")
    return JuraGrid(points_in(table), {key: tuple(table.words(key)) for key in CATEGORIES})


def read_samples(path: Path) -> JuraSamples:
    """Samples of one's own, from a CSV file with the columns of `jura.csv`."""
    return samples_in(read_csv(path))


def jura_csv() -> bytes:
    """The samples as a CSV file, for problem files to name."""
    return file_in_package("jura.csv")


def table_in_package(name: str) -> TextTable:
    return csv_table(Path(name), file_in_package(name))


def file_in_package(name: str) -> bytes:
    return files("riesz.datasets").joinpath(FOLDER, name).read_bytes()


def points_in(table: TextTable) -> Float[np.ndarray, "sample 2"]:
    return np.column_stack([table.numbers(name) for name in PLACES])


def samples_in(table: TextTable) -> JuraSamples:
    sets = table.words("set")
    for row, result in enumerate(sets):
        if result not in SETS:
            raise FileFormatError(f"{table.at(row)}: set is {result!r}; it is {any_of(SETS)}.")
    return JuraSamples(
        points=points_in(table),
        categories={key: categories_in(table, key) for key in CATEGORIES},
        metals={name: concentrations_in(table, name) for name in METALS},
        is_training=np.array([result == SETS[0] for result in sets]),
    )


def categories_in(table: TextTable, key: str) -> tuple[str, ...]:
    words = table.words(key)
    if "" in words:
        where = table.at(words.index(""))
        raise FileFormatError(f"{where}: {key} is empty; write 'unknown' where it is not known.")
    return tuple(words)


def concentrations_in(table: TextTable, name: str) -> Float[np.ndarray, " sample"]:
    values = table.numbers(name, may_be_missing=True)
    (bad,) = np.nonzero(values <= 0)
    if bad.size:
        raise FileFormatError(
            f"{table.at(int(bad[0]))}: {name} is {values[bad[0]]:g}; a concentration is positive. "
            "Leave the cell empty where nothing was measured."
        )
    return values
