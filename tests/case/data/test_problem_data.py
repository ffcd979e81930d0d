"""Problem files with domains from maps, coordinates by name, limits, covariates and sites."""

import json

import numpy as np
import pytest

from riesz.case.data.rows import data_rows_content
from riesz.case.file.problem import read_case, read_problem
from riesz.errors import FileFormatError, MeshError, RieszError
from riesz.geometry.crs import length_unit, same_crs
from riesz.notes import Note

ALBERS = "+proj=aea +lat_1=42 +lat_2=44 +lat_0=41.5 +lon_0=-113 +datum=NAD83 +units=m +no_defs"

BODY = """
[domain]
outline = "area.geojson"
max_edge = 4000
levels = 1
[observations]
file = "wells.csv"
[noise]
sd = 0.3
[equation]
diffusion = 1.0
source = "f"
[boundary.outer]
value = 0.0
[unknowns.f]
prior = "normal"
mean = 0.0
sd = 1.0
"""

WELLS = """x,y,value,Ni,rock,s,site
2000,2000,1.0,3,a,0.1,A
3000,4000,2.0,5,b,0.2,B
5000,6000,4.0,4,a,0.3,C
7000,3000,<1.5,9,c,0.4,D
6000,8000,5.0,2,b,0.5,E
"""


def written(folder, body=BODY, wells=WELLS, **members):
    ring = [[0, 0], [9000, 0], [9000, 9000], [5001, 9000], [5000, 9040], [4999, 9000], [0, 9000]]
    content = {"type": "Polygon", "coordinates": [[*ring, ring[0]]], **members}
    (folder / "area.geojson").write_text(json.dumps(content))
    (folder / "wells.csv").write_text(wells)
    path = folder / "problem.toml"
    path.write_text(body)
    return path


def with_keys(table, *lines, body=BODY):
    return body.replace(f"[{table}]\n", f"[{table}]\n" + "".join(f"{line}\n" for line in lines))


def test_the_crs_comes_from_the_outline_and_stays_with_the_problem(tmp_path):
    case = read_problem(written(tmp_path, crs_proj4=ALBERS))
    assert same_crs(case.tables.crs, ALBERS)
    assert case.notes == ()
    again = tmp_path / "again.toml"
    again.write_bytes(case.content)
    (tmp_path / "observations.csv").write_bytes(data_rows_content(case.prepared))
    (tmp_path / "area.geojson").unlink()
    found = read_case(again, coarse=case.coarse, kept=tmp_path, decided=case.decided)
    assert found.tables.crs == case.tables.crs
    np.testing.assert_array_equal(found.problem.observed, case.problem.observed)
    assert found.censored.tolist() == [False, False, False, True, False]


def test_an_outline_in_another_crs_is_projected_and_none_at_all_is_told(tmp_path):
    pytest.importorskip("pyproj")
    with pytest.raises(MeshError, match=r"5 of 5 points lie outside .* spans \(333070, 4\.59599"):
        read_problem(written(tmp_path, f'crs = "EPSG:32612"\n{BODY}', crs_proj4=ALBERS))
    assert read_problem(written(tmp_path)).notes[0].code == "not_placed"
    same = read_problem(written(tmp_path, f'crs = "{ALBERS}"\n{BODY}', crs_proj4=ALBERS))
    assert same.notes == ()


def test_units_of_length_are_known_by_the_crs():
    pytest.importorskip("pyproj")
    assert length_unit("EPSG:32612") == "m"
    assert length_unit("EPSG:4326") == "degrees"
    assert length_unit(ALBERS.replace("units=m", "units=km")) == "km"
    assert length_unit(None) is None


def test_domains_come_from_layers(tmp_path):
    geopandas = pytest.importorskip("geopandas")
    path = written(tmp_path)
    frame = geopandas.read_file(tmp_path / "area.geojson").set_crs(
        "EPSG:32612", allow_override=True
    )
    frame.to_file(tmp_path / "maps.gpkg", layer="area")
    frame.to_file(tmp_path / "maps.gpkg", layer="area2")
    layered = BODY.replace('"area.geojson"', '"maps.gpkg"\nlayer = "area"')
    case = read_problem(written(tmp_path, layered))
    assert case.tables.crs == "EPSG:32612"
    with pytest.raises(FileFormatError, match=r"has 2 layers: choose one by layer"):
        read_problem(written(tmp_path, layered.replace('layer = "area"', "")))
    frame.to_file(tmp_path / "area.shp")
    path.write_text(BODY.replace("area.geojson", "area.shp"))
    assert read_problem(path).coarse.num_cells == case.coarse.num_cells


def test_small_bends_are_left_out_and_hulls_are_drawn(tmp_path):
    full = read_problem(written(tmp_path)).coarse.num_nodes
    simple = with_keys("domain", "simplify = 100.0")
    assert read_problem(written(tmp_path, simple)).coarse.num_nodes < full
    hull = BODY.replace('outline = "area.geojson"', "around_observations = true\nmargin = 500.0")
    case = read_problem(written(tmp_path, hull))
    assert case.coarse.nodes.min(axis=0) == pytest.approx([1500, 1500], abs=200)
    two = "\n".join(WELLS.splitlines()[:3])
    with pytest.raises(RieszError, match=r"around_observations: the cloud has 2 distinct"):
        read_problem(written(tmp_path, hull, two))


def test_points_outside_are_dropped_where_that_is_asked_for(tmp_path):
    far = f"{WELLS}99000,0,1,1,a,1,F\n"
    with pytest.raises(RieszError, match=r"drop them by observations.outside = 'drop'"):
        read_problem(written(tmp_path, wells=far))
    case = read_problem(written(tmp_path, with_keys("observations", 'outside = "drop"'), far))
    assert case.prepared.num_rows == 5
    assert case.prepared.told[-1] == Note("rows_outside", count=1, total=6)
    (note,) = [one for one in case.notes if one.code == "outside_dropped"]
    assert (note.values["count"], note.values["which"]) == (1, "line 7")


def test_limits_logs_noise_columns_and_covariates_reach_the_likelihood(tmp_path):
    keys = ('transform = "log"', 'sd = "s"', 'covariates = ["Ni", "rock"]', 'unit = "ppm"')
    body = with_keys("observations", *keys).replace("[noise]\nsd = 0.3\n", "")
    case = read_problem(written(tmp_path, body))
    assert (case.unit, case.transform) == ("ppm", "log")
    assert case.censored.tolist() == [False, False, False, True, False]
    np.testing.assert_allclose(case.problem.observed, np.log([1, 2, 4, 1.5, 5]))
    likelihood = case.problem.likelihood
    np.testing.assert_allclose(likelihood.base.sd, [0.1, 0.2, 0.3, 0.4, 0.5])
    assert likelihood.labels[1:] == ("rock: b against a", "rock: c against a")
    assert case.problem.latents.names == ("f", "effects")
    assert case.choice().engine.name == "laplace"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BODY.replace("sd = 0.3", ""), "the file lacks noise.sd: give a number in the unit"),
        (with_keys("observations", 'sd = "s"'), "keep one of them"),
        (
            with_keys("observations", 'site = "site"', 'aggregate = "median"')
            .replace('aggregate = "median"', 'aggregate = "median"\nsd_from_scatter = true')
            .replace("sd = 0.3", 'sd = "f"'),
            "it is the least sd of a site, a number",
        ),
        (
            with_keys("observations", 'covariates = ["Ni"]')
            .replace("unknowns.f", "unknowns.effects")
            .replace('"f"', '"effects"'),
            r"has \[unknowns.effects\], a name of the effects on values: rename it",
        ),
        (
            with_keys("observations", "local = true")
            .replace("unknowns.f", "unknowns.local")
            .replace('"f"', '"local"'),
            r"has \[unknowns.local\], a name of the effects on values: rename it",
        ),
        (with_keys("observations", "local_sd = 1.0"), "the key 'local_sd', which needs 'local'"),
        (with_keys("noise", 'kind = "student-t"'), "below a detection limit, which noise.kind ="),
        (
            with_keys("domain", "margin = 1.0"),
            "domain has the key 'margin', which goes with",
        ),
        (with_keys("domain", 'layer = "a"'), "area.geojson has no layers"),
        (f'crs = "+proj=nothing"\n{BODY}', "is not known"),
        (
            f"[engine]\nname = 'laplace'\ndensity = 'marginal'\n{BODY}",
            "marginal needs normal noise",
        ),
    ],
)
def test_what_does_not_go_together_is_told(tmp_path, body, message):
    with pytest.raises(RieszError, match=message):
        read_problem(written(tmp_path, body)).choice()


def test_values_that_are_all_the_same_leave_nothing_for_neighbours_to_share(tmp_path):
    same = "x,y,value\n2000,2000,1\n3000,4000,1\n"
    with pytest.raises(FileFormatError, match="nothing that neighbours could share; leave obs"):
        read_problem(written(tmp_path, with_keys("observations", "local = true"), same))


def test_stretches_come_from_a_map_and_wells_are_sources(tmp_path):
    river = {"type": "LineString", "coordinates": [[-100, -50], [-80, 9100]]}
    body = BODY.replace("[boundary.outer]\nvalue = 0.0", "[boundary.river]\nvalue = 0.0\nALONG")
    body = body.replace("ALONG", 'along = "river.geojson"\ntolerance = 150.0')
    body = f"{body}\n[[wells]]\nx = 3000\ny = 3000\nrate = -2.5\n"
    path = written(tmp_path, body)
    (tmp_path / "river.geojson").write_text(json.dumps(river))
    case = read_problem(path)
    forward = case.problem.forward
    assert forward.dirichlet_tags == ("river",)
    np.testing.assert_array_equal(forward.space.mesh.nodes[np.asarray(forward.fixed), 0], 0.0)
    assert repr(forward.form) == "WeakForm(+ diffusion - source - point_source = 0)"
    again = read_case(path, coarse=case.coarse)
    assert again.problem.forward.dirichlet_tags == ("river",)
    path.write_text(body.replace("150.0", "15.0"))
    with pytest.raises(RieszError, match=r"boundary.river.along: no boundary facet lies within 15"):
        read_problem(path)
    path.write_text(body.replace("x = 3000", "x = 30000"))
    with pytest.raises(RieszError, match=r"outside"):
        read_problem(path)
    path.write_text(body.replace("tolerance = 150.0", ""))
    with pytest.raises(FileFormatError, match=r"boundary.river has the key 'along', which needs"):
        read_problem(path)
