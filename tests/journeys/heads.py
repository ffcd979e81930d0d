"""Heads of a made-up plain of 8 by 5 km, known everywhere, and how to score a map of them."""

import csv
from pathlib import Path

import numpy as np
from pyproj import Transformer

CORNER = np.array([430_000.0, 4_580_000.0])  # in metres of EPSG:25831, near Barcelona
SIZE = np.array([8_000.0, 5_000.0])
NOISE = 0.1


def head(points: np.ndarray) -> np.ndarray:
    """In metres: falls to the east, with a mound in the north."""
    east, north = ((points - CORNER) / SIZE).T
    return 40 - 12 * east + 3 * np.exp(-((east - 0.4) ** 2 + (north - 0.8) ** 2) / 0.08)


def wells(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places inside the plain, and heads that were measured there."""
    rng = np.random.default_rng(seed)
    points = (CORNER + SIZE * rng.uniform(0.02, 0.98, (count, 2))).round(1)
    return points, head(points) + NOISE * rng.normal(size=count)


def degrees(points: np.ndarray) -> np.ndarray:
    """Longitude and latitude."""
    turned = Transformer.from_crs("EPSG:25831", "EPSG:4326", always_xy=True)
    return np.stack(turned.transform(*points.T), axis=-1)


def ring() -> np.ndarray:
    return CORNER + SIZE * np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])


def geojson(points: np.ndarray) -> str:
    return str({"type": "Polygon", "coordinates": [points.tolist()]}).replace("'", '"')


def write_table(path: Path, header: list[str], rows, delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([header, *rows])


def read_column(path: Path, name: str) -> np.ndarray:
    with path.open(newline="", encoding="utf-8") as file:
        return np.array([float(row[name]) for row in csv.DictReader(file)])


def scores(path: Path, truth: np.ndarray, quantity: str = "measurement") -> tuple[float, float]:
    """Mean absolute error and share inside the 95 % interval of a table by `riesz predict`."""
    mean, low, high = (
        read_column(path, f"{quantity}_{stat}") for stat in ("mean", "q2.5", "q97.5")
    )
    return float(np.mean(abs(mean - truth))), float(np.mean((low <= truth) & (truth <= high)))
