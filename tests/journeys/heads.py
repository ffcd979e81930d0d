"""Heads of a made-up plain of 8 by 5 km, known everywhere, and how to score a map of them.

Rules that know no equation are scored beside it: the nearest well, and ordinary kriging.
"""

import csv
from pathlib import Path

import numpy as np
from pyproj import Transformer
from scipy.optimize import minimize
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

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


def nearest(places: np.ndarray, heads: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The head of the nearest well."""
    return heads[KDTree(places).query(new)[1]]


def kriged(places: np.ndarray, heads: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Ordinary kriging; sill, length and nugget of its exponential variogram by the likelihood."""
    ones, apart = np.ones(len(heads)), cdist(places, places)

    def given(logs: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Minus the log-likelihood, the level, and the weights of what the wells share."""
        sill, length, nugget = np.exp(logs)
        covariance = sill * np.exp(-apart / length) + nugget * np.eye(len(heads))
        solved = np.linalg.solve(covariance, np.stack([ones, heads], axis=1))
        level = (ones @ solved[:, 1]) / (ones @ solved[:, 0])
        weights = solved[:, 1] - level * solved[:, 0]
        square = (heads - level) @ weights
        return 0.5 * (np.linalg.slogdet(covariance)[1] + square), level, weights

    start = np.log([heads.var(), apart.max() / 4, 0.01 * heads.var()])
    logs = minimize(lambda own: given(own)[0], start, method="Nelder-Mead").x
    _, level, weights = given(logs)
    return level + np.exp(logs[0] - cdist(new, places) / np.exp(logs[1])) @ weights
