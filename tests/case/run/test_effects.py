"""Values at places are those of their covariates and of what neighbours share."""

import csv
import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.prediction.made_up_draws import FACTS
from tests.small_problem import NORMAL, problem_toml, rectangle, written

from riesz.case.data.read import prepare_data
from riesz.case.data.schema import ObservationsTable
from riesz.case.file.problem import read_problem
from riesz.case.options import covariates_in
from riesz.case.report.content import maps_of
from riesz.case.run.fit import make_run
from riesz.case.run.measurand import measurand_of
from riesz.errors import RieszError
from riesz.geometry.crs import project
from riesz.io.maps.raster import Band, write_raster
from riesz.io.store.draws import StoredDraws, read_draws, write_draws
from riesz.mesh.grids import Grid, grid
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.predict import predict

PROBLEM = problem_toml(
    domain=rectangle([4, 2], max_edge=1.0),
    observations={
        "file": "soil.csv",
        "value": "Cd",
        "transform": "log",
        "covariates": ["Zn", "rock"],
        "log_covariates": ["Zn"],
        "local": True,
    },
    noise=0.3,
    equation={"diffusion": 1.0},
    boundary={"boundary": "level"},
    unknowns={"level": NORMAL},
)

SOIL = """x,y,Cd,Zn,rock
0.5,0.5,1.2,30,chalk
1.5,1.5,0.8,60,marl
1.6,1.5,0.9,50,chalk
3.5,0.5,2.0,90,chalk
"""

NUM_DRAWS = 40


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose draws are those of the prior: nothing is fitted."""
    folder = tmp_path_factory.mktemp("soil")
    case = read_problem(written(folder, PROBLEM, SOIL, data="soil.csv"))
    normals = np.random.default_rng(0).normal(size=(1, NUM_DRAWS, case.problem.num_coordinates))
    posterior = Posterior(case.problem, EmpiricalDraws(jnp.asarray(normals)), ExactStates())
    return make_run(folder, case, posterior, {})


@pytest.fixture(scope="module")
def drawn_numbers(run):
    """By name, what the unknowns are in each draw, and what the samples scatter about."""
    problem = run.case.problem

    def of(one):
        z = problem.z(one)
        # The state is the level of the boundary, everywhere.
        return {**z, "mean": problem.likelihood.mean(jnp.full(4, z["level"]), z)}

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(of))(run.posterior.distribution.all()))


def predicted(run, tmp_path, table, **words):
    places = tmp_path / "places.csv"
    places.write_text(table)
    words = {"points": places, "quantity": "value", "stat": "ensemble"} | words
    out = tmp_path / "value.csv"
    told = run.predict(**words).save(out)
    rows = list(csv.reader(out.read_text().splitlines()))
    own = len(table.splitlines()[0].split(",")) if table else 2  # columns of the table stay
    return np.array([row[own:] for row in rows[1:]], float).T, told


def test_where_there_was_a_sample_values_are_what_it_scatters_about(run, drawn_numbers, tmp_path):
    found, told = predicted(run, tmp_path, SOIL)
    assert told["notes"] == []
    means = np.sort(drawn_numbers["mean"], axis=0)
    np.testing.assert_allclose(np.sort(np.log(found), axis=0), means, atol=0.02)
    # Of both Zn and rock, not of one of them; and of what neighbours share beyond both.
    other, _ = predicted(run, tmp_path, SOIL.replace("30,chalk", "30,marl"))
    effects = drawn_numbers["effects"]
    assert effects.shape == (NUM_DRAWS, 2)
    apart = np.log(other[:, 0]) - np.log(found[:, 0])
    np.testing.assert_allclose(np.sort(apart), np.sort(effects[:, 1]), atol=0.02)
    assert np.abs(np.log(found[:, 1:] / other[:, 1:])).max() < 1e-9


def test_far_from_samples_nothing_but_the_sd_of_the_local_effect_is_known(
    run, drawn_numbers, tmp_path
):
    far = "x,y,Zn,rock\n" + "3.9,1.9,50,chalk\n" * 4
    found, _ = predicted(run, tmp_path, far)
    zinc = (np.log(50) - np.log([30, 60, 50, 90]).mean()) / np.log([30, 60, 50, 90]).std()
    middle = drawn_numbers["level"] + zinc * drawn_numbers["effects"][:, 0]
    white = (np.log(found) - middle[:, None]) / drawn_numbers["local"].weights[:, :1]
    # Places draw it by themselves: numbers that are all standard normal.
    assert abs(white.mean()) < 3 / white.size**0.5
    assert abs(white.std() - 1) < 3 / (2 * white.size) ** 0.5


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("x,y,rock\n1,1,chalk\n", r"places.csv has no column Zn: --quantity value needs the cov"),
        ("x,y,Zn,rock\n1,1,4,gneiss\n", r"rock is 'gneiss' in 1 of 1 rows, of which there is no"),
        ("x,y,Zn,rock\n1,1,-4,marl\n", r"Zn is in log_covariates, but goes down to -4"),
        ("x,y,Zn,rock\n1,1,high,marl\n", r"Zn holds words, but was fitted as a number"),
        ("x,y,Zn,rock\n1,1,,marl\n", r"the covariate Zn is missing"),
    ],
)
def test_covariates_that_places_lack_are_told(run, tmp_path, table, message):
    with pytest.raises(RieszError, match=message):
        predicted(run, tmp_path, table)


def test_an_array_of_places_has_the_covariates_that_are_given(run, tmp_path):
    out, words = tmp_path / "value.csv", {"quantity": "value", "points": [[1.0, 1.0]]}
    for given in ({}, {"covariates": None}):
        message = "array of points has no column Zn, rock: --quantity val"
        with pytest.raises(RieszError, match=message):
            run.predict(**words, **given).save(out)
    with pytest.raises(RieszError, match="array of points has no column rock"):
        run.predict(covariates={"Zn": [40.0]}, **words).save(out)
    with pytest.raises(RieszError, match="the covariate Zn has 2 values for 1 places"):
        run.predict(covariates={"Zn": [40.0, 1.0], "rock": "marl"}, **words).save(out)
    told = run.predict(covariates={"Zn": [40.0], "rock": ["marl"]}, **words).save(out)
    assert (told["places"], told["holds_for"]) == (1, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zn": 4.0}, "there is no covariate 'zn' to be given: did you mean 'Zn'"),
        ({"Zn": "high"}, "Zn is given as 'high', but was fitted as a number"),
        ({"rock": "gneiss"}, "rock is 'gneiss' in 4 of 4 rows, of which there is no"),
        ({"Zn": "nowhere.tif"}, "nowhere.tif cannot be read as a raster"),
    ],
)
def test_covariates_that_cannot_be_are_told(run, tmp_path, given, message):
    with pytest.raises(RieszError, match=message):
        predicted(run, tmp_path, "", points=None, grid="2x2", covariates=given)


def test_a_value_a_column_and_a_raster_of_the_same_numbers_are_the_same(run, tmp_path):
    cells = grid(run.case.problem.forward.space.mesh, (2, 2))
    raster = tmp_path / "zinc.tif"
    zinc = np.array([[30.0, 40.0], [50.0, 60.0]])
    write_raster(raster, cells, [Band("Zn", zinc)])
    by_raster, told = predicted(
        *(run, tmp_path, ""), points=None, grid="2x2", covariates={"Zn": str(raster)}
    )
    assert "values are for rock = chalk everywhere" in told["holds_for"]
    numbers = zinc[cells.inside]
    rows = [f"{x},{y},{z},chalk" for (x, y), z in zip(cells.points, numbers, strict=True)]
    by_column, told = predicted(run, tmp_path, "\n".join(["x,y,Zn,rock", *rows]) + "\n")
    assert told["holds_for"] is None
    np.testing.assert_allclose(np.sort(by_raster), np.sort(by_column), rtol=1e-9)


def test_a_problem_file_names_rasters_of_covariates(run, tmp_path):
    """Read at the observations, where their table has no such column, and on maps."""
    cells = grid(run.case.problem.forward.space.mesh, (2, 1))
    write_raster(tmp_path / "zinc.tif", cells, [Band("Zn", np.array([[30.0, 60.0]]))])
    text = PROBLEM.replace('["Zn", "rock"]', '{ Zn = "zinc.tif", rock = true }')
    assert text != PROBLEM
    lines = [line.split(",") for line in SOIL.splitlines()]
    table = "\n".join(",".join([*line[:3], line[4]]) for line in lines) + "\n"
    case = read_problem(written(tmp_path, text, table, data="soil.csv"))
    np.testing.assert_array_equal(case.prepared.covariates["Zn"], [30, 30, 30, 60])
    kept = dataclasses.replace(run, numbers={"rasters": {"Zn": str(tmp_path / "zinc.tif")}})
    by_file, told = predicted(kept, tmp_path, "", points=None, grid="2x1")
    assert "values are for rock = chalk everywhere" in told["holds_for"]
    given = {"Zn": str(tmp_path / "zinc.tif")}
    by_option, _ = predicted(run, tmp_path, "", points=None, grid="2x1", covariates=given)
    np.testing.assert_array_equal(by_file, by_option)


def test_a_raster_in_degrees_is_read_where_the_problem_has_its_observations(tmp_path):
    low, high = np.array([350_000.0, 4_800_000.0]), np.array([354_000.0, 4_802_000.0])
    west, south = project(low[None], "EPSG:32612", "EPSG:4326")[0] - 0.01
    degrees = west + 0.001 * np.arange(90), south + 0.001 * np.arange(60)
    cells = Grid(degrees, np.ones((60, 90), bool), (0.001, 0.001))
    eastwards = np.broadcast_to(degrees[0], (60, 90))
    write_raster(tmp_path / "lon.tif", cells, [Band("lon", eastwards)], crs="EPSG:4326")
    names = ObservationsTable.model_validate({"file": "w.csv", "covariates": {"lon": "lon.tif"}})
    places = np.random.default_rng(0).uniform(low, high, (5, 2))
    rows = [f"{x:.3f},{y:.3f},1.0" for x, y in places]
    (tmp_path / "w.csv").write_text("\n".join(["x,y,value", *rows]) + "\n")
    found = prepare_data(tmp_path, names, None, "EPSG:32612").covariates["lon"]
    wanted = project(places, "EPSG:32612", "EPSG:4326")[:, 0]
    np.testing.assert_allclose(found, wanted, atol=0.00051)


def test_covariates_of_commands_are_names_and_values():
    assert covariates_in(["dist=0.3", "soil = a=b"]) == {"dist": "0.3", "soil": "a=b"}
    for words, message in ((["dist"], "give a covariate and its value"), (["a=1", "a=2"], "twice")):
        with pytest.raises(RieszError, match=message):
            covariates_in(words)


def test_the_state_needs_no_covariates_and_a_grid_says_for_which_it_holds(run, tmp_path):
    found, told = predicted(run, tmp_path, "x,y\n" + "1,1\n" * 4, quantity="u")
    assert (found == found[:, :1]).all()
    assert told["holds_for"] is None
    _, told = predicted(run, tmp_path, "", points=None, grid="2x2")
    middle = np.exp(np.log([30, 60, 50, 90]).mean())
    assert told["holds_for"].startswith(f"values are for Zn = {middle:.4g}, rock = chalk everywh")


def test_new_measurements_need_covariates_and_add_noise(run):
    points = run.case.prepared.points
    with pytest.raises(RieszError, match="shifted by 2 effects of covariates: give their columns"):
        predict(run.posterior, "measurement", points)
    with pytest.raises(RieszError, match=re.escape("design has shape (4, 1): (4, 2) are wanted")):
        predict(run.posterior, "measurement", points, design=np.zeros((4, 1)))
    design = run.case.problem.likelihood.design
    with pytest.raises(RieszError, match=r"covariates design=\.\.\. were given for 'u'"):
        predict(run.posterior, "u", points, design=design)
    at_sensors = predict(run.posterior, "measurement", num_draws=NUM_DRAWS)
    there = predict(run.posterior, "measurement", points, num_draws=NUM_DRAWS, design=design)
    np.testing.assert_allclose(there.mean, at_sensors.mean, atol=0.2)
    np.testing.assert_allclose(there.sd, at_sensors.sd, rtol=0.2)


def test_the_check_and_the_report_tell_of_the_local_effect(run):
    text = str(run.case.check())
    assert "effects[0]: log Zn, by its sd of" in text
    assert "effects[1]: rock: marl against chalk" in text
    assert re.search(r"local: what neighbours share: sd about 0\.\d+, range about 0\.18, ", text)
    pixels = grid(run.case.problem.forward.space.mesh, (2, 2))
    maps = maps_of(measurand_of(run.observations), run.draws(), pixels, seed=0)
    assert [one.name for one in maps] == ["measurement", "value", "u"]
    measured, value = (np.diff(np.log(one.quantiles[[0, -1]]), axis=0) for one in maps[:2])
    state = np.diff(maps[2].quantiles[[0, -1]], axis=0)
    assert (measured > value).all()
    assert (value > state).all()


def test_draws_with_what_neighbours_share_come_back_from_their_file(run, tmp_path):
    draws = run.draws()
    write_draws(tmp_path / "draws.npz", StoredDraws(draws, FACTS))
    again = read_draws(tmp_path / "draws.npz").draws
    assert eqx.tree_equal(again, draws)
    points = np.array([[1.0, 1.0], [3.0, 0.5]])
    found, wanted = (
        one.shifts.local.moments_at(points, one.shifts.local_weights) for one in (again, draws)
    )
    np.testing.assert_array_equal(found.sd, wanted.sd)


def test_where_to_measure_next_is_for_the_covariates_there(run, tmp_path):
    path = tmp_path / "places.csv"
    path.write_text("x,y,Zn,rock\n1,1,40,chalk\n3,1,40,marl\n")
    told = run.next("level", candidates=path, count=2)
    shares = {place["x"]: place["share"] for place in told["places"]}
    assert 0 < shares[3.0] < shares[1.0] < 1  # the effect of marl has to be told from the level
    path.write_text("x,y,rock\n1,1,chalk\n")
    with pytest.raises(
        RieszError, match=r"no column Zn: a measurement there needs .*=RASTER.tif\.$"
    ):
        run.next("level", candidates=path)
    assert "values are for" in run.next("exceed:1.5", cell=0.5)["notes"][0]
