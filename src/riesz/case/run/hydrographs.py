"""Hydrographs of a run in time as a figure: a panel a place, with the readings there."""

from collections.abc import Sequence
from importlib import import_module

import numpy as np
from jaxtyping import Bool, Float, Shaped

from riesz.case.data.prepared import Prepared
from riesz.case.run.folder import Run
from riesz.case.run.measured import MEASUREMENT, VALUE, Measured
from riesz.case.run.request import STATE, PredictionRequest
from riesz.case.run.scene import Scene
from riesz.io.maps.raster import Band

PLOT = "riesz.plot"
"""Imported where a figure is drawn, since most files need none."""

MOST_PANELS, COLUMNS = 40, 3
"""More places are left out: name others by --points."""

Readings = tuple[Shaped[np.ndarray, " reading"], Float[np.ndarray, " reading"]]


def write_hydrographs(
    request: PredictionRequest, run: Run, scene: Scene, measured: Measured, bands: Sequence[Band]
) -> None:
    """Mean and 95 % interval of the quantity in time, at each place."""
    plot = import_module(PLOT)
    count = min(len(scene.points), MOST_PANELS)
    columns = min(COLUMNS, count)
    figure, panels = plot.new_figure(columns, -(-count // columns), width=3.6, height=2.3)
    mean, low, high = (
        np.stack([band.values for band in own])
        for own in (bands[i::3] for i in range(3))  # as a request has them for a figure
    )
    # Values of another unit than the readings have stand alone.
    beside = None if request.quantity == STATE and measured.transform else run.prepared
    label = measured.state if request.quantity == STATE else measured.label
    for place, panel in enumerate(panels[:count]):
        point = scene.points[place]
        plot.draw_hydrograph(
            panel,
            scene.times,
            mean[:, place],
            (low[:, place], high[:, place]),
            read=None if beside is None else readings_at(beside, point, measured),
        )
        site = scene.sites[place] if scene.sites else f"{point[0]:.7g}, {point[1]:.7g}"
        panel.set_title(site, fontsize=9)
        panel.tick_params(labelsize=7)
    for panel in panels[count:]:
        panel.set_visible(False)
    figure.supylabel(label, fontsize=9)
    what = {MEASUREMENT: "a new measurement", VALUE: "without noise"}.get(request.quantity, STATE)
    figure.suptitle(f"mean and 95 % interval, {what}; dots were measured", fontsize=9)
    plot.save_figure(request.out, figure)


def readings_at(
    prepared: Prepared, point: Float[np.ndarray, " 2"], measured: Measured
) -> Readings | None:
    """When and what was read at a place, in the unit of the measurements."""
    here: Bool[np.ndarray, " row"] = (prepared.points == point).all(axis=1)
    if prepared.times is None or not here.any():
        return None
    return prepared.times.rows(here).values(), np.asarray(measured.of(prepared.values[here]))
