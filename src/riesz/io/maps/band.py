"""Named values at places, with what a reader of a file wants to know of them, and their colours."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.colors import to_hex

from riesz.io.store.files import write_bytes

NUM_COLOURS = 16
DOCTYPE = b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"


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


def style_of(raster: Path) -> Path:
    """Where QGIS looks for the style of a raster."""
    return raster.with_suffix(".qml")


def write_style(path: Path, colours: str, low: float, high: float) -> None:
    """Colour the first band from `low` to `high` by a colour map of matplotlib."""
    ends = {"minimumValue": f"{low!r}", "maximumValue": f"{high!r}"}
    root = Element("qgis", {"version": "3.22", "styleCategories": "Symbology"})
    renderer = SubElement(
        SubElement(root, "pipe"),
        "rasterrenderer",
        {
            "type": "singlebandpseudocolor",
            "band": "1",
            "opacity": "1",
            "alphaBand": "-1",
            "nodataColor": "",
            "classificationMin": f"{low!r}",
            "classificationMax": f"{high!r}",
        },
    )
    ramp = {"colorRampType": "INTERPOLATED", "classificationMode": "1", "clip": "0"}
    shader = SubElement(SubElement(renderer, "rastershader"), "colorrampshader", ramp | ends)
    shares = np.linspace(0.0, 1.0, NUM_COLOURS)
    for share, colour in zip(shares, colormaps[colours](shares), strict=True):
        value = low + float(share) * (high - low)
        look = {"value": f"{value!r}", "color": to_hex(colour), "alpha": "255"}
        SubElement(shader, "item", look | {"label": f"{value:.4g}"})
    indent(root)
    write_bytes(path, DOCTYPE + tostring(root))
