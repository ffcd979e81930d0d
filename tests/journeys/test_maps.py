"""From a table as offices write it to a map that holds at wells which nobody was told of."""

import re

import numpy as np
import pytest
from tests.journeys.heads import degrees, geojson, head, ring, scores, wells, write_table

NEW, TRUTH_SEED = 40, 11
STATS = "--stat mean,q2.5,q97.5"


def check_map(shell, rows, header=("x", "y")) -> None:
    """Heads at forty other places: to a third of their spread about the mean, in the intervals."""
    write_table(shell.folder / "new.csv", list(header), rows)
    shell(f"riesz predict run --points new.csv {STATS} --out at_new.csv --quantity value")
    truth = head(wells(NEW, TRUTH_SEED)[0])
    error, inside = scores(shell.folder / "at_new.csv", truth, "value")
    assert error < 0.2
    assert inside >= 0.85


def coarsen(shell, edge: float) -> None:
    """What is tested is not the mesh."""
    file = shell.folder / "problem.toml"
    file.write_text(re.sub(r"^max_edge = .*", f"max_edge = {edge}", file.read_text(), flags=re.M))


@pytest.mark.parametrize("in_file", [True, False], ids=["degrees", "both in degrees"])
def test_wells_in_degrees_in_an_outline(riesz, in_file):
    """In metres, or in degrees as well."""
    points, values = wells(60, seed=0)
    rows = [
        [f"W{i}", *x, f"{v:.2f}"]
        for i, (x, v) in enumerate(zip(degrees(points), values, strict=True))
    ]
    write_table(riesz.folder / "wells.csv", ["well", "lon", "lat", "head_m"], rows)
    outline = ring() if in_file else degrees(ring())
    (riesz.folder / "outline.geojson").write_text(geojson(outline))
    polygon_crs = "EPSG:25831" if in_file else "EPSG:4326"
    riesz(f"riesz init wells.csv outline.geojson --polygon-crs {polygon_crs} --quiet")
    coarsen(riesz, 600)
    riesz("riesz check problem.toml")
    riesz("riesz fit problem.toml --out run --quiet")
    check_map(riesz, degrees(wells(NEW, TRUTH_SEED)[0]).tolist(), ("lon", "lat"))


def test_a_german_table_of_readings(riesz):
    """Windows-1252, semicolons, decimal commas, days before months; five readings a site."""
    points, values = wells(50, seed=1)
    rng = np.random.default_rng(2)
    lines = ["Meßstelle;Rechtswert;Hochwert;Datum;Wasserstand (m)"]
    for site, ((x, y), value) in enumerate(zip(points, values, strict=True)):
        for year in range(2015, 2020):
            read = round(value + 0.05 * rng.normal(), 2)
            numbers = [str(number).replace(".", ",") for number in (x, y, read)]
            lines.append(";".join([f"GWM {site + 1}", *numbers[:2], f"14.10.{year}", numbers[2]]))
    (riesz.folder / "staende.csv").write_text("\n".join(lines), encoding="cp1252")
    (riesz.folder / "outline.geojson").write_text(geojson(degrees(ring())))
    printed = riesz("riesz init staende.csv outline.geojson --crs EPSG:25831 --site Meßstelle")
    assert "50" in printed
    coarsen(riesz, 600)
    riesz("riesz check problem.toml")
    assert riesz.json("riesz fit problem.toml --out run --quiet")["observations"] == 50
    points = [[f"{x:.1f}" for x in point] for point in wells(NEW, TRUTH_SEED)[0]]
    check_map(riesz, points, ("Rechtswert", "Hochwert"))
