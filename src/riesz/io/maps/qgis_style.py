"""A style that QGIS loads with a raster of the same name: colours over the range of its values."""

from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from riesz.io.store.files import write_bytes

NUM_COLOURS = 16
DOCTYPE = b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"


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
