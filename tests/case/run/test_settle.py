"""A problem file that leaves it to the data whether neighbours share anything."""

import json
import warnings

import numpy as np
import pytest
from tests.case.data.test_problem_data import BODY, WELLS, with_keys, written
from tests.pairs import pair

from riesz.case.file.problem import read_case, read_problem, tables_in
from riesz.case.run import fit
from riesz.case.run.compare import compare_runs
from riesz.case.run.fit import decide_local
from riesz.comparison.results import Difference
from riesz.geometry.crs import project


@pytest.fixture
def case(tmp_path):
    comment = '# local = "auto" leaves it to the data'
    body = with_keys("observations", f'{comment}\nlocal = "auto"   # decide')
    return read_problem(written(tmp_path, body, WELLS.replace("<1.5", "1.5")))


def found_gain(gain):
    return lambda problem, local: Difference(gain, 0.1, gain - 0.2, gain + 0.2)


def test_what_is_decided_stands_beside_the_text_that_a_run_keeps(case, monkeypatch):
    assert "local" in case.problem.latents.names
    monkeypatch.setattr(fit, "gain_by", found_gain(0.5))
    kept = decide_local(case, pair("laplace(marginal)"))
    assert kept.decided["observations"] == {"local": True}
    assert kept.problem is case.problem
    assert kept.remarks[0].startswith("with what neighbours share")
    monkeypatch.setattr(fit, "gain_by", found_gain(-0.5))
    dropped = decide_local(case, pair("laplace(marginal)"))
    assert dropped.decided["observations"] == {"local": False}
    assert dropped.content == kept.content == case.path.read_bytes()
    assert tables_in(case.path, case.content, dropped.decided) == dropped.tables
    assert dropped.problem.latents.names == ("f",)
    assert dropped.remarks[0].startswith("without what neighbours share")


def test_the_run_keeps_the_verdict_that_compare_gives_of_it(tmp_path):
    rows = [f"{x},{y},{2 + x / 4000 + ((x * y) % 7) / 9}" for x in (1500, 4000, 7000)
            for y in (1000, 3000, 5500, 8000)]  # fmt: skip
    body = with_keys("observations", 'local = "auto"').replace("sd = 0.3", 'sd = "noise"')
    body += '[unknowns.noise]\nprior = "half-normal"\nsd = 0.5\n'
    path = written(tmp_path, body, "x,y,value\n" + "\n".join(rows) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = read_problem(path).fit(tmp_path / "out", "laplace(marginal)", progress=False)
    chosen, *verdict = run.numbers["remarks"]
    assert "what neighbours share" in chosen
    assert verdict == list(map(str, compare_runs([tmp_path / "out"]).verdict))
    assert "left-out blocks" in verdict[0]
    assert "95 % interval" in verdict[0]


@pytest.mark.parametrize("keys", [(), ('site = "id"', 'aggregate = "median"')])
def test_places_are_projected_once_whatever_is_decided(tmp_path, monkeypatch, keys):
    """Wells in longitude and latitude, an outline in metres: all see the same places."""
    pytest.importorskip("pyproj")
    metres = np.array([[400500.0, 5600500.0], [402000.0, 5603000.0], [404000.0, 5604500.0]])
    degrees = project(metres, "EPSG:25832", "EPSG:4326")
    rows = [f"w{i},{x:.9f},{y:.9f},{i + 1}.5\n" for i, (x, y) in enumerate(degrees)]
    body = with_keys("observations", 'crs = "EPSG:4326"', 'local = "auto"', *keys)
    path = written(tmp_path, f'crs = "EPSG:25832"\n{body}', "id,x,y,value\n" + "".join(rows))
    ring = [[4.0e5 + x, 5.6e6 + y] for x, y in ([0, 0], [9e3, 0], [9e3, 9e3], [0, 9e3], [0, 0])]
    outline = {"type": "Polygon", "coordinates": [ring]}
    (tmp_path / "area.geojson").write_text(json.dumps(outline))
    case = read_problem(path)
    np.testing.assert_allclose(case.prepared.points, metres, atol=1e-3)
    again = read_case(path, coarse=case.coarse)
    np.testing.assert_array_equal(again.prepared.points, case.prepared.points)
    monkeypatch.setattr(fit, "gain_by", found_gain(-0.5))
    dropped = decide_local(case, pair("laplace(marginal)"))
    seen = dropped.problem.observations.points
    np.testing.assert_allclose(seen, metres, atol=1e-3)


def test_engines_without_a_closed_form_keep_it(case):
    kept = decide_local(case, pair("mcmc", kernel="nuts"))
    assert kept.tables.observations.local is True
    assert "only the density marginal finds out" in kept.remarks[0]


def test_what_the_file_decides_stays(tmp_path):
    plain = read_problem(written(tmp_path, BODY, WELLS.replace("<1.5", "1.5")))
    assert decide_local(plain, pair("laplace(marginal)")) is plain
