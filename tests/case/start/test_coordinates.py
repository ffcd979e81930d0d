"""Tables and outlines meet in one system of coordinates, whichever each is in."""

import json
import tomllib

import numpy as np
import pytest

from riesz.case.data.read import prepare_data
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.domain import outline_of
from riesz.case.file.problem import read_problem
from riesz.case.file.schema import DomainTable
from riesz.case.options import InitOptions
from riesz.case.start.starter import starter
from riesz.errors import FileFormatError, RieszError
from riesz.geometry.crs import LON_LAT, metric_crs, place_on_earth, project
from riesz.geometry.outline import contains
from riesz.notes import Note

pytest.importorskip("pyproj", reason="projections need the extra gis")

UTM = "EPSG:32632"
CENTRE = np.array([9.2, 48.8])  # degrees


def in_degrees(count=12):
    """Places about a town."""
    return CENTRE + np.random.default_rng(0).uniform(-0.1, 0.1, size=(count, 2))


def corners_in_degrees():
    return CENTRE + 0.15 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])


def table(folder, points, header="x,y"):
    rows = [f"{x:.8f},{y:.8f},{i % 5 + i}" for i, (x, y) in enumerate(points)]
    path = folder / "wells.csv"
    path.write_text("\n".join([f"{header},value", *rows]) + "\n")
    return path


def polygon(folder, corners, crs=None):
    ring = [*corners.tolist(), corners[0].tolist()]
    members = {} if crs is None else {"crs": {"type": "name", "properties": {"name": crs}}}
    path = folder / "area.geojson"
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [ring], **members}))
    return path


def as_fit_reads_it(folder, made):
    """Places and outline of the problem file, in its own coordinates."""
    tables = tomllib.loads(made.text)
    names = ObservationsTable.model_validate(tables["observations"])
    found = prepare_data(folder, names, None).within(tables["crs"])
    domain = DomainTable.model_validate(tables["domain"])
    return tables, found, outline_of(folder / "problem.toml", domain, tables["crs"])


CASES = {
    "degrees beside an outline in metres": ((LON_LAT, "lon,lat"), (UTM, UTM), {}),
    "degrees by option beside an outline in metres": (
        (LON_LAT, "x,y"),
        (UTM, UTM),
        {"crs": LON_LAT},
    ),
    "metres by option beside GeoJSON as its standard has it": (
        (UTM, "x,y"),
        (LON_LAT, None),
        {"crs": UTM},
    ),
    "another projection beside an outline in metres": (
        ("EPSG:31467", "Rechtswert,Hochwert"),
        (UTM, UTM),
        {"crs": "EPSG:31467"},
    ),
    "both in degrees": ((LON_LAT, "Länge,Breite"), (LON_LAT, None), {}),
    "an outline that was told": ((LON_LAT, "lon,lat"), (UTM, None), {"polygon_crs": UTM}),
    "both in the same projection": ((UTM, "E,N"), (UTM, UTM), {}),
}


@pytest.mark.parametrize(("of_table", "of_outline", "options"), CASES.values(), ids=CASES)
def test_both_are_projected_into_metres(tmp_path, of_table, of_outline, options):
    crs, header = of_table
    path = table(tmp_path, project(in_degrees(), LON_LAT, crs), header)
    drawn, named = of_outline
    area = polygon(tmp_path, project(corners_in_degrees(), LON_LAT, drawn), named)
    made = starter(path, tmp_path, InitOptions(area, **options))
    tables, found, outline = as_fit_reads_it(tmp_path, made)
    assert tables["crs"] == UTM
    assert (f"as {area.name} says" in made.text) == (named == UTM)
    np.testing.assert_allclose(found.points, project(in_degrees(), LON_LAT, UTM), atol=0.01)
    assert contains(outline.outline, found.points).all()
    assert "outside" not in tables["observations"]


def test_degrees_alone_are_projected_into_their_zone(tmp_path):
    made = starter(table(tmp_path, in_degrees(), "lon,lat"), tmp_path, InitOptions())
    tables, found, _ = as_fit_reads_it(tmp_path, made)
    assert (tables["crs"], tables["observations"]["crs"]) == (UTM, LON_LAT)
    assert found.told[-1] == Note("rows_projected", source=LON_LAT, target=UTM)
    assert Note("crs_from_degrees", crs=UTM) in made.guesses


@pytest.mark.parametrize(
    ("of_table", "of_outline", "told"),
    [
        ((UTM, "x,y"), (LON_LAT, None), "say which coordinates those are by --crs and a code"),
        (("EPSG:31467", "x,y"), (LON_LAT, None), "by --crs EPSG:31467, if they are Gauss-Krüger"),
        (("EPSG:2056", "x,y"), (LON_LAT, None), "by --crs EPSG:2056, if they are Swiss LV95"),
        ((LON_LAT, "lon,lat"), (UTM, None), "name them by --polygon-crs"),
    ],
)
def test_where_one_is_not_known_there_is_one_question(tmp_path, of_table, of_outline, told):
    crs, header = of_table
    path = table(tmp_path, project(in_degrees(), LON_LAT, crs), header)
    if crs == "EPSG:2056":
        swiss = np.array([8.5, 47.3]) + 0.1 * (in_degrees() - CENTRE)
        path = table(tmp_path, project(swiss, LON_LAT, crs), header)
    drawn, named = of_outline
    area = polygon(tmp_path, project(corners_in_degrees(), LON_LAT, drawn), named)
    with pytest.raises(FileFormatError, match=told):
        starter(path, tmp_path, InitOptions(area))


def test_swapped_columns_are_told_or_taken_as_the_polygon_holds_them(tmp_path):
    swapped = project(in_degrees(), LON_LAT, UTM)[:, ::-1]
    area = polygon(tmp_path, project(corners_in_degrees(), LON_LAT, UTM), UTM)
    made = starter(table(tmp_path, swapped), tmp_path, InitOptions(area))
    reason = "the range of the polygon: swapped against their names"
    assert made.guesses[0] == Note("axes_guessed", x="y", y="x", reason=reason)
    with pytest.raises(FileFormatError, match="they are when swapped: --x y --y x"):
        starter(table(tmp_path, swapped), tmp_path, InitOptions(area, x="x", y="y"))


EAST = np.array([151.0, -33.8])  # where a latitude would be beyond 90 degrees


def turned(points):
    return points[:, ::-1]


def test_a_latitude_beyond_90_degrees_is_a_longitude(tmp_path):
    places = turned(in_degrees() - CENTRE + EAST)
    with pytest.raises(RieszError, match=r"wells\.csv: longitude and latitude are swapped: .* 151"):
        starter(table(tmp_path, places, "lon,lat"), tmp_path, InitOptions())
    with pytest.raises(RieszError, match="no latitude is beyond 90 degrees"):
        starter(table(tmp_path, places), tmp_path, InitOptions(crs=LON_LAT))


def test_degrees_that_fit_a_projection_only_when_swapped_are_swapped(tmp_path):
    """In the table and in the outline alike: no point would lie outside."""
    path = table(tmp_path, turned(in_degrees()), "lon,lat")
    area = polygon(tmp_path, turned(corners_in_degrees()), LON_LAT)
    problem = tmp_path / "problem.toml"
    made = starter(path, tmp_path, InitOptions(area))
    problem.write_text(made.text.replace("EPSG:32639", UTM))
    told = r"swapped: .* that is not where EPSG:32632 is used, but with both swapped it would be"
    with pytest.raises(RieszError, match=told):
        read_problem(problem)


def place_in(made):
    (place,) = (one.values["place"] for one in made.guesses if one.code == "crs_on_earth")
    return place


def test_where_on_earth_it_is_lets_swapped_degrees_be_noticed(tmp_path):
    """Degrees alone may be right or wrong: the country tells."""
    right = starter(table(tmp_path, in_degrees(), "lon,lat"), tmp_path, InitOptions())
    assert place_in(right).startswith("9.189° E, 48.79° N, Germany")
    wrong = starter(table(tmp_path, turned(in_degrees()), "lon,lat"), tmp_path, InitOptions())
    assert place_in(wrong).startswith("48.79° E, 9.189° N, Somalia")
    sea = place_on_earth(np.array([[51.5, 4.5]]), LON_LAT)
    assert sea == "51.5° E, 4.5° N, in no country; with longitude and latitude swapped, Netherlands"
    assert place_on_earth(np.zeros((1, 2)), "no crs") is None


def test_names_of_columns_that_contradict_an_outline_in_degrees_are_a_question(tmp_path):
    path = table(tmp_path, in_degrees(), "lon,lat")
    area = polygon(tmp_path, turned(corners_in_degrees()))
    with pytest.raises(FileFormatError, match="but the polygon has latitude first"):
        starter(path, tmp_path, InitOptions(area))
    names = ObservationsTable(file=path.name, x="lat", y="lon")
    (note,) = prepare_data(tmp_path, names, None).notes
    assert note == Note("axes_by_name", x="lat", y="lon")


def test_a_metre_on_the_map_is_a_metre_on_earth():
    step = np.array([[9.0, 48.0], [9.0, 48.0 + 1 / 111.19]])  # a kilometre northwards
    for crs in (metric_crs(step), "+proj=laea +lat_0=48 +lon_0=9 +datum=WGS84 +units=m"):
        moved = project(step, LON_LAT, crs)
        assert abs(np.linalg.norm(moved[1] - moved[0]) - 1000) < 2


def test_zones_are_by_longitude_and_wide_areas_have_a_projection_of_their_own():
    assert metric_crs(np.array([[-70.6, -33.4]])) == "EPSG:32719"
    assert metric_crs(np.array([[179.9, 10.0]])) == "EPSG:32660"
    assert metric_crs(np.array([[0.0, 45.0], [20.0, 47.0]])).startswith("+proj=laea +lat_0=46.00")


def test_places_beyond_a_projection_are_told():
    with pytest.raises(RieszError, match="1 of 2 points have no place in EPSG:32632, first"):
        project(np.array([[9.0, 48.0], [9.0, 480.0]]), LON_LAT, UTM)
