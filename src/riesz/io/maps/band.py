"""Named values at places, with what a reader of a file wants to know of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Band:
    """One number a place; NaN lies outside the domain."""

    name: str
    values: Float[np.ndarray, "*shape"]
    about: str = ""
    unit: str | None = None


def bands_of(
    name: str,
    values: Float[np.ndarray, "..."],
    num_axes: int,
    *,
    about: str = "",
    unit: str | None = None,
) -> list[Band]:
    """One band a component, numbered where there are several; the first axes count places."""
    components = values.reshape(*values.shape[:num_axes], -1)
    count = components.shape[-1]
    labels = [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    return [
        Band(label, components[..., i], about if count == 1 else f"{about}, component {i}", unit)
        for i, label in enumerate(labels)
    ]


def finite_range(band: Band) -> tuple[float, float]:
    """Smallest and largest value inside the domain."""
    return float(np.nanmin(band.values)), float(np.nanmax(band.values))


def colour_range(bands: Sequence[Band]) -> tuple[str, float, float]:
    """Which colours suit the first band, and their ends.

    Values of both signs get two colours that meet at zero, unless zero is far off the middle.
    """
    band = bands[0]
    low, high = finite_range(band)
    if "_exceed_" in band.name:
        return "cividis", 0.0, 1.0
    if low < 0 < high and min(-low, high) > 0.2 * max(-low, high):
        largest = max(-low, high)
        return "RdBu_r", -largest, largest
    return ("magma" if "_sd" in band.name else "viridis"), low, high
