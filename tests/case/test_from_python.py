"""What problem files and commands do can be had from Python, and is the same."""

import inspect
import json
import re
from datetime import date
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from tests.pairs import pair
from tests.small_problem import problem_toml, rectangle, written
from tests.tiny_run import NUM_DRAWS, tiny_run

import riesz as rz
from riesz.case.options import FitOptions
from riesz.case.run.fit import command_of
from riesz.errors import RieszError
from riesz.prediction.draws import BITS

READINGS = """site,day,value,zinc
a,1960-01-01,3.0,1.5
a,1961-01-01,5.0,2.5
a,1962-01-01,4.0,2.0
b,1961-06-01,<2.0,1.0
b,1962-06-01,<2.0,1.0
c,1961-07-01,7.0,3.0
"""
SITES = "site,x,y\na,0.2,0.3\nb,0.6,0.4\nc,0.8,0.9\n"
RIVER = [[0.5, -1.0], [0.5, 2.0]]

PROBLEM = (
    problem_toml(
        domain=rectangle([1, 1], max_edge=0.5),
        observations={
            "file": "readings.csv",
            "sites": "sites.csv",
            "site": "site",
            "aggregate": "median",
            "covariates": ["zinc"],
            "date": "day",
            "from": date(1960, 6, 1),
        },
        noise=0.5,
    )
    + """
[[wells]]
file = "pumping.csv"
[[rivers]]
file = "river.geojson"
stage = 0.3
conductance = 2.0
"""
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "readings.csv").write_text(READINGS)
    (tmp_path / "sites.csv").write_text(SITES)
    (tmp_path / "pumping.csv").write_text("x,y,rate\n0.3,0.6,-1.5\n0.7,0.2,0.5\n")
    river = {"type": "LineString", "coordinates": RIVER}
    (tmp_path / "river.geojson").write_text(json.dumps(river))
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return tmp_path


def test_observations_and_terms_are_those_of_the_problem_file(folder):
    case = rz.read_problem(str(folder / "problem.toml"))
    found = rz.case.read_observations(
        str(folder / "readings.csv"),
        sites=folder / "sites.csv",
        site="site",
        aggregate="median",
        covariates=["zinc"],
        date="day",
        from_="1960-06-01",
    )
    np.testing.assert_array_equal(found.points, case.prepared.points)
    np.testing.assert_array_equal(found.values, [4.5, 2.0, 7.0])
    np.testing.assert_array_equal(found.censored, [False, True, False])
    np.testing.assert_array_equal(found.covariates["zinc"], [2.25, 1.0, 3.0])
    assert str(rz.Censored(0.5, found.censored).sd) == "0.5"

    forward, residual = case.problem.forward, eqx.filter_jit(rz.fem.residual)
    state = jnp.linspace(-1.0, 1.0, forward.space.num_dofs)
    for lines in (str(folder / "river.geojson"), np.array(RIVER)):
        equation = (
            rz.diffusion("a")
            - rz.source(1.0)
            - rz.case.wells(str(folder / "pumping.csv"))
            + rz.case.river(forward.space.mesh, lines, stage=0.3, conductance=2.0)
        )
        problem = rz.boundary_value_problem(forward.space, equation, {"left": 0.0})
        np.testing.assert_allclose(
            residual(problem, state, {"a": jnp.asarray(1.3)}),
            residual(forward, state, {"a": jnp.asarray(1.3)}),
            rtol=1e-12,
            atol=1e-12,
        )


def test_covariates_become_the_columns_that_the_problem_file_has(folder):
    case = rz.read_problem(folder / "problem.toml")
    columns, labels = rz.case.covariate_design(case.prepared)
    np.testing.assert_allclose(columns, case.problem.likelihood.design, rtol=1e-6)
    assert labels == case.problem.likelihood.labels
    fewer = case.prepared.rows(np.array([2]))
    np.testing.assert_allclose(rz.case.covariate_design(case.prepared, fewer)[0], columns[2:])
    bare = rz.case.read_observations(folder / "pumping.csv", value="rate")
    with pytest.raises(RieszError, match="was read without covariates: name their columns"):
        rz.case.covariate_design(bare)


def test_the_noise_of_a_site_is_the_scatter_of_its_readings_but_not_less_than_told(folder):
    readings, sites = folder / "readings.csv", folder / "sites.csv"
    words = {"sites": sites, "site": "site", "aggregate": "median"}
    found = rz.case.read_observations(readings, least_sd=0.4, **words)
    np.testing.assert_allclose(found.sd, [1.4826, 1.4826, 1.4826])
    assert rz.case.read_observations(readings, least_sd=9.0, **words).sd.tolist() == [9.0] * 3
    assert rz.case.read_observations(readings, **words).sd is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"site": "site", "aggregate": "mode"}, "aggregate is 'mode': "),
        ({"x": "easting"}, "has no column 'easting'"),
    ],
)
def test_a_bad_word_for_observations_is_told_as_in_a_problem_file(folder, words, message):
    with pytest.raises(RieszError, match=re.escape(message)):
        rz.case.read_observations(folder / "readings.csv", **words)


def test_bad_rivers_and_wells_are_told(folder):
    mesh, line = rz.rectangle((2, 2)), np.array(RIVER)
    with pytest.raises(RieszError, match="give a positive number, or the name of an unknown"):
        rz.case.river(mesh, line, stage=1.0, conductance=-1.0)
    with pytest.raises(RieszError, match="has no columns or layers: give its stage as a number"):
        rz.case.river(mesh, line, stage="level", conductance=1.0)
    with pytest.raises(RieszError, match="no part of the river"):
        rz.case.river(mesh, line + 9.0, stage=1.0, conductance=1.0)
    with pytest.raises(RieszError, match="has no column 'amount'"):
        rz.case.wells(folder / "pumping.csv", rate="amount")


def test_a_river_of_a_hierarchy_lies_on_its_finest_mesh():
    meshes = rz.hierarchy(rz.rectangle((2, 2)), 2)
    finest, words = meshes.meshes[-1], {"stage": 1.0, "conductance": "c"}
    (nested,), (plain,) = (
        rz.case.river(domain, np.array(RIVER), **words).terms for domain in (meshes, finest)
    )
    assert nested.coefficients.keys() == plain.coefficients.keys()
    for one, other in zip(nested.coefficients.values(), plain.coefficients.values(), strict=True):
        assert str(one) == str(other)


def test_outlines_are_read_from_all_that_problem_files_take(tmp_path):
    geopandas = pytest.importorskip("geopandas")
    shapely = pytest.importorskip("shapely")
    shape = shapely.Polygon([(0, 0), (3, 0), (3, 2), (0, 2)], [[(1, 1), (2, 1), (2, 1.5)]])
    frame = geopandas.GeoDataFrame(geometry=[shape], crs="EPSG:32612")
    (tmp_path / "o.geojson").write_text(json.dumps(shapely.geometry.mapping(shape)))
    frame.to_file(tmp_path / "o.gpkg", layer="area")
    frame.to_file(tmp_path / "o.shp")
    for name in ("o.geojson", "o.gpkg", "o.shp"):
        outline = rz.io.read_outline(str(tmp_path / name))
        assert outline.area == pytest.approx(5.75)
        area = rz.io.read_domain(tmp_path / name, max_edge=0.5)
        assert rz.mesh_from_polygon(outline, max_edge=0.5).num_cells == area.num_cells
    with pytest.raises(RieszError, match="has no layer 'zone'"):
        rz.io.read_outline(tmp_path / "o.gpkg", layer="zone")
    rz.io.write_mesh(tmp_path / "o.npz", area)
    with pytest.raises(RieszError, match="holds a mesh, not an outline: leave max_edge"):
        rz.io.read_domain(tmp_path / "o.npz", max_edge=0.5)


def test_a_table_has_columns_of_numbers_and_of_words(folder):
    table = rz.io.read_table(str(folder / "readings.csv"))
    assert table.header == ("site", "day", "value", "zinc")
    assert table.cells("site") == ["a", "a", "a", "b", "b", "c"]
    assert table.numbers("zinc").sum() == 11.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return rz.read_run(str(tiny_run(tmp_path_factory.mktemp("python"))))


@pytest.mark.slow
def test_a_prediction_at_an_array_is_that_of_the_posterior(run, tmp_path):
    places = run.case.problem.observations.points
    out = str(tmp_path / "at.csv")
    told = run.predict(quantity="u", stat="sd", points=places).save(out)
    assert told["places"] == len(places)
    table = rz.io.read_table(out)
    found = rz.predict(run.posterior, "u", places, num_draws=NUM_DRAWS)
    np.testing.assert_allclose(table.numbers("u_sd"), found.sd, rtol=2**-BITS)
    words = {"quantity": "conductivity", "num_draws": 4}
    run.predict(grid=(5, 4), **words).save(tmp_path / "a.csv")
    rz.read_run(run.folder).predict(grid="5x4", **words).save(tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    values = run.predict("u", "mean,sd", points=places).values
    assert list(values) == ["u_mean", "u_sd"]
    np.testing.assert_array_equal(values["u_sd"], table.numbers("u_sd"))
    at_nodes = run.predict("conductivity").values["conductivity_mean"]
    assert len(at_nodes) == run.draws().mesh.num_nodes


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (np.zeros((2, 2)), "points: 2 of 2 points lie outside the domain, first row 0 at (0, 0)"),
        ([1.0, 2.0], "the array of points has shape (2,): give one row x, y for each point"),
    ],
)
def test_bad_places_are_told(run, tmp_path, places, message):
    with pytest.raises(RieszError, match=re.escape(message)):
        run.predict(points=places).save(tmp_path / "a.csv")


FIT = problem_toml(
    domain=rectangle([1, 1], max_edge=0.8),
    observations={"file": "heads.csv"},
    noise=0.1,
    equation={"diffusion": 1.0, "source": "f"},
    unknowns={"f": {"prior": "normal", "mean": 0.0, "sd": 2.0}},
)


def test_a_fitted_case_is_the_run_that_its_folder_holds(tmp_path):
    heads = "x,y,value\n0.5,0.5,0.4\n1.0,0.2,0.6\n"
    case = rz.read_problem(written(tmp_path, FIT, heads, data="heads.csv"))
    out, told = tmp_path / "run", []
    made = case.fit(str(out), "laplace(marginal)", seed=3, progress=False, told=told.append)
    again = rz.read_run(out)
    assert told == ["engine laplace(marginal): it was asked for"]
    assert made.folder == again.folder == out
    assert made.numbers == again.numbers
    assert made.summary == again.summary
    criticism = "misfit: no observation, place or prior contradicts the model"
    *lines, mesh = str(rz.summary(made.posterior)).splitlines()
    assert made.summary.splitlines() == [*lines, criticism, mesh]
    assert made.posterior.mean("f") == again.posterior.mean("f")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["command"] == (
        f"riesz fit {tmp_path}/problem.toml --out {out} --seed 3 --engine 'laplace(marginal)'"
    )
    with pytest.raises(RieszError, match="is not empty"):
        case.fit(out, "laplace(marginal)", seed=3)
    finished = rz.read_problem(case.path).fit(out, "laplace(marginal)", seed=3, resume=True)
    assert finished.posterior.mean("f") == made.posterior.mean("f")
    with pytest.raises(RieszError, match="a finished run of another fit, which differs in seed"):
        case.fit(out, "laplace(marginal)", seed=4, resume=True)
    with pytest.raises(RieszError, match=r"which differs in setting marginal\.at_mode"):
        case.fit(out, pair("laplace(marginal)", at_mode=True), seed=3, resume=True)
    asked = FitOptions(out, pair("laplace(marginal)"), seed=3)
    assert command_of(case.path, asked).startswith(
        f"rz.read_problem('{tmp_path}/problem.toml').fit('{out}', rz.Laplace(start=None, "
    )
    assert ", density=rz.Marginal(num_draws=400, " in command_of(case.path, asked)


def test_a_first_problem_file_is_one_that_is_understood(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{y:.3f},{x + y:.3f}" for x, y in rng.uniform(0, 9, (12, 2))]
    (tmp_path / "heads.csv").write_text("\n".join(["x,y,head", *rows]))
    out = str(tmp_path / "problem.toml")
    guesses = rz.case.write_first_problem(str(tmp_path / "heads.csv"), out=out, value="head")
    assert any("mesh: edges up to" in guess for guess in guesses)
    assert rz.read_problem(out).tables.observations.value == "head"
    with pytest.raises(RieszError, match="is there already"):
        rz.case.write_first_problem(tmp_path / "heads.csv", out=out)


MADE_FOR_US = ("Case", "DataRows", "Run", "TextTable")


def public_functions():
    packages = [rz, *(getattr(rz, name) for name in ("case", "datasets", "diagnose", "io", "plot"))]
    every = {name: getattr(package, name) for package in packages for name in package.__all__}
    return {name: one for name, one in every.items() if callable(one)}


def test_every_public_function_that_takes_a_path_takes_its_name_too():
    taking = 0
    for name, one in public_functions().items():
        try:
            parameters = inspect.signature(one).parameters.values()
        except ValueError:  # a class without a signature
            continue
        for parameter in parameters:
            kinds = getattr(parameter.annotation, "__args__", (parameter.annotation,))
            if Path in kinds and name not in MADE_FOR_US:
                assert str in kinds, f"{name}({parameter.name}=...) takes no str"
                taking += 1
    assert taking > 15
