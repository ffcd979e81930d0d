"""Whatever bytes a file holds, a reader gives a result or one clear error.

Mutations flip, cut, double and swap bytes, and replace numbers by odd ones; seeds are fixed.
"""

import json
import re
import warnings

import numpy as np
import pytest
from tests.small_msh import MSH_22

from riesz.case.data.read import prepare_data
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.problem import tables_in
from riesz.case.run.folder import check_unchanged
from riesz.errors import RieszError
from riesz.io import read_mesh, write_mesh
from riesz.io.maps.outlines import read_outline_file
from riesz.io.store.results import read_results
from riesz.io.tables.layers import csv_table
from riesz.mesh.shapes import rectangle

FEW, MANY = 300, 10_000
ODD = (b"nan", b"inf", b"-1e999", b"1e308", b"9" * 400, b"-0", b"0x1F", b"1_0", b'"', b"", b"[]")

CSV = b"""site,x,y,value,date,kind
01,1.5,2,3,1970-01-01,a
02,2,3,<0.5,1971-02-03,b
01,1.5,2,4,,a
"""
TOML = b"""crs = "EPSG:32612"
[domain]
rectangle = { lower = [0, 0], upper = [4, 1] }
max_edge = 0.5
[observations]
file = "w.csv"
where = { a = { min = 1 } }
date = "d"
from = 1960-01-01
[noise]
sd = 0.1
[equation]
diffusion = "a"
advection = [0.5, 0.0]
[boundary.left]
value = 0.0
[[wells]]
x = 1
y = 0.5
rate = 2
[unknowns.a]
prior = "lognormal"
median = 1.0
log_sd = 0.5
[engine.mcmc]
num_samples = 10
"""
GEOJSON = json.dumps(
    {
        "type": "FeatureCollection",
        "crs_proj4": "+proj=utm +zone=12",
        "features": [
            {
                "type": "Feature",
                "properties": {},
                "geometry": {
                    "type": "Polygon",
                    "coordinates": [
                        [[0, 0], [9, 0], [9, 5.5], [0, 5], [0, 0]],
                        [[1, 1], [2, 1], [2, 2], [1, 1]],
                    ],
                },
            }
        ],
    }
).encode()
MANIFEST = json.dumps(
    {
        "schema": 1,
        "command": "riesz fit",
        "config": {},
        "seed": 0,
        "commit": None,
        "machine": {},
        "versions": {"riesz": "0"},
        "rows": [{"unknown": "a", "mean": 1.5}],
        "summary": {"engine": "mcmc", "notes": []},
        "files": {"problem.toml": "00", "observations.csv": "11", "mesh.npz": "22"},
    }
).encode()


def mutated(content, rng):
    """One to four small damages."""
    found = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, max(len(found), 1)))
        far = place + int(rng.integers(1, 40))
        match rng.integers(0, 6):
            case 0 if found:
                found[place] = int(rng.integers(0, 256))
            case 1:
                del found[place:far]
            case 2:
                found[place:place] = found[place:far]
            case 3:
                del found[place:]
            case 4:
                found[place:place] = rng.bytes(3)
            case _:
                numbers = list(re.finditer(rb"-?\d+\.?\d*", bytes(found)))
                if numbers:
                    one = numbers[int(rng.integers(0, len(numbers)))]
                    found[one.start() : one.end()] = ODD[int(rng.integers(0, len(ODD)))]
    return bytes(found)


ASKED = ObservationsTable.model_validate(
    {
        "file": "a.csv",
        "site": "site",
        "aggregate": "median",
        "date": "date",
        "to": "1999-01-01",
        "where": {"kind": ["a", "b"]},
        "covariates": ["kind"],
    }
)


def read_observations(path):
    csv_table(path, path.read_bytes())
    return prepare_data(path.parent, ASKED, None)


def read_manifest(path):
    return check_unchanged(path.parent, read_results(path))


def mesh_of(suffix):
    def make(folder):
        write_mesh(folder / f"mesh{suffix}", rectangle((2, 2)))
        return (folder / f"mesh{suffix}").read_bytes()

    return make


READERS = {
    "csv": ("a.csv", lambda _: CSV, read_observations),
    "toml": ("p.toml", lambda _: TOML, lambda path: tables_in(path, path.read_bytes())),
    "geojson": ("o.geojson", lambda _: GEOJSON, read_outline_file),
    "msh": ("m.msh", lambda _: MSH_22.encode(), read_mesh),
    "vtu": ("m.vtu", mesh_of(".vtu"), read_mesh),
    "npz": ("m.npz", mesh_of(".npz"), read_mesh),
    "manifest": ("manifest.json", lambda _: MANIFEST, read_manifest),
}


def survived(folder, kind, count):
    """How many of so many damaged files were still read; all others gave one line of error."""
    name, whole, read = READERS[kind]
    content, path = whole(folder), folder / name
    rng = np.random.default_rng(sum(map(ord, kind)))
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            path.write_bytes(mutated(content, rng))
            try:
                read(path)
            except RieszError as error:
                told.append(str(error))
    assert all(told), "an error must say something"
    return count - len(told)


@pytest.mark.parametrize("kind", [kind for kind in READERS if kind != "manifest"])
def test_whole_files_are_read(tmp_path, kind):
    name, whole, read = READERS[kind]
    (tmp_path / name).write_bytes(whole(tmp_path))
    assert read(tmp_path / name) is not None


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files_give_a_result_or_one_error(tmp_path, kind):
    assert survived(tmp_path, kind, FEW) < FEW


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_very_many_damaged_files_give_a_result_or_one_error(tmp_path, kind):
    assert survived(tmp_path, kind, MANY) < MANY
