"""Problem files say no before any work, and say why; what they describe is built as written."""

import json
import tomllib
from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests import small_problem
from tests.pairs import pair

import riesz as rz
from riesz.case.file.problem import read_problem, tables_in
from riesz.case.file.schema import EngineTable, ProblemTables
from riesz.errors import FileFormatError, MeshError, RieszError
from riesz.geometry.crs import epsg_code
from riesz.inference.table import (
    AMORTISE,
    DENSITIES,
    METHODS,
    RENAMED,
    class_of,
    engine_of,
    with_settings,
)
from riesz.io import write_mesh
from riesz.io.tables.layers import read_table
from riesz.mesh.shapes import rectangle
from riesz.notes import Note
from riesz.priors.gaussian_process import GP, BoundaryGP
from riesz.priors.karhunen_loeve import KarhunenLoeve
from riesz.priors.regions import Regions
from riesz.priors.spde import SPDEField

SQUARE = small_problem.problem_toml(
    domain=small_problem.rectangle([2, 1], max_edge=0.4, levels=2),
    equation={"diffusion": "a", "advection": [0.5, 0.0], "source": 1.0},
)
WELLS = "name,x,y,value\nA,0.5,0.5,0.3\n\nB,1.5,0.2,0.9\n"


def written(folder, content=SQUARE, wells=WELLS):
    return small_problem.written(folder, content, wells)


def swapped(old, new):
    assert SQUARE.count(old) == 1
    return SQUARE.replace(old, new)


def test_a_problem_is_built_as_written(tmp_path):
    case = read_problem(written(tmp_path))
    forward = case.problem.forward
    assert repr(forward.form) == "WeakForm(+ diffusion + advection - source = 0)"
    assert forward.dirichlet_tags == ("left",)
    assert case.problem.latents.names == ("a",)
    np.testing.assert_array_equal(case.problem.observations.points, [[0.5, 0.5], [1.5, 0.2]])
    np.testing.assert_array_equal(case.problem.observed, [0.3, 0.9])
    np.testing.assert_allclose(case.problem.z(jnp.zeros(1))["a"], 1.0)
    coarse, fine = case.problem.hierarchy.meshes
    assert (fine.num_cells, case.coarse.num_cells) == (4 * coarse.num_cells, coarse.num_cells)
    told = case.check().numbers
    assert told["longest_edge"] <= 0.4
    assert told["area"] == pytest.approx(2.0)
    assert told["engine"] == "laplace"
    text = str(case.check())
    assert "2 rows of wells.csv, all inside" in text
    assert "LogNormal, 95 % within 0.3753 .. 2.664" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_edge", "max_egde", r"domain has the key 'max_egde'.* did you mean 'max_edge'\?"),
        ("max_edge = 0.4", "", "domain lacks the key 'max_edge': the longest edge"),
        ("max_edge = 0.4", "max_edge = -1", "domain.max_edge is -1: give a number above 0"),
        ("max_edge = 0.4", "max_edge = nan", "domain.max_edge is nan: give a "),
        ("max_edge = 0.4", 'max_edge = "fine"', "domain.max_edge is 'fine': give a number"),
        ("levels = 2", "levels = 1.5", "domain.levels is 1.5: give a whole number"),
        ("levels = 2", 'outline = "o.geojson"', "but holds outline and rectangle"),
        ("upper = [2, 1]", "upper = [2]", "domain.rectangle.upper has 1 entries: give 2"),
        ("upper = [2, 1]", "uper = [2, 1]", r"domain.rectangle has the key 'uper'.*'upper'\?"),
        ('file = "wells.csv"', "", "observations lacks the key 'file': the CSV file, relative"),
        ("sd = 0.05", "sd = -0.05", "noise.sd is -0.05: give a positive number, or the name"),
        ("sd = 0.05", "sd = 0", "noise.sd is 0: give a positive number"),
        ("sd = 0.05", "sd = nan", "noise.sd is nan: give a positive number"),
        ("sd = 0.05", f"sd = 1{'0' * 400}", r"noise.sd is 10+\.\.\.: give a positive number"),
        ("sd = 0.05", f"sd = 1{'0' * 5000}", "is not TOML: "),
        ("max_edge = 0.4", f"max_edge = 1{'0' * 400}", "domain.max_edge is 10"),
        ("max_edge = 0.4", "max_edge = 1e-4", r"finest mesh would have 8e\+08 cells or more, and"),
        ("max_edge = 0.4", "max_edge = 1e-300", "finest mesh would have inf cells"),
        ("max_edge = 0.4\nlevels = 2", "max_edge = 5e-324", "raise domain.max_edge, a length in"),
        ("upper = [2, 1]", "upper = [1e308, 1e308]", "finest mesh would have inf cells"),
        ("levels = 2", "levels = 14", "6.7e[+]07 cells or more, .* lower domain.levels, here 14"),
        ("levels = 2", f"levels = 1{'0' * 400}", "lower domain.levels, here very many"),
        ("sd = 0.05", "sd = [0.1, 0.2]", "noise.sd is .0.1, 0.2.: give a positive number"),
        ("sd = 0.05", 'sd = "noise"', r"noise.sd = 'noise', but there is no \[unknowns.noise\]"),
        ("sd = 0.05", 'sd = 1.0\nkind = "student"', r"noise.kind is 'student': did .*'student-t'"),
        ('diffusion = "a"', 'diffusion = "b"', r"equation.diffusion = 'b', but .* It has a"),
        ('diffusion = "a"', 'diffusion = "A"', r"there is no \[unknowns.A\]: did you mean 'a'\?"),
        ("[0.5, 0.0]", '"a"', r"'a' has shape \(\), but the velocity .* mean = \[0.0, 0.0\] in a"),
        ("[0.5, 0.0]", "[1, 2, 3]", r"velocity of advection has shape \(3,\)"),
        (
            "value = 0.0",
            'value = "rim"',
            r"boundary.left.value = 'rim', but there is no .* need a prior there, such as",
        ),
        ("value = 0.0", "", "boundary.left lacks the key 'value'"),
        ("value = 0.0", "value = nan", "boundary.left.value is nan: give a finite number"),
        ("value = 0.0", "value = [0, 1]", r"Dirichlet value on 'left' has shape \(2,\)"),
        ("[boundary.left]\nvalue = 0.0", "", "no value of u is prescribed anywhere"),
        ("[0.5, 0.0]", "[0.5, true]", "equation.advection is .0.5, True.: give a finite number"),
        ("advection", "transport", "equation has the key 'transport'.* diffusion, advection"),
        ('"lognormal"', '"lognorm"', r"unknowns.a has the prior 'lognorm': did .*'lognormal'\? It"),
        ('prior = "lognormal"', "", "unknowns.a lacks the key 'prior': say which kind it is"),
        ("log_sd = 0.5", "sd = 0.5", r"unknowns.a has the key 'sd'.* median or log_sd"),
        ("median = 1.0", "median = -1.0", "unknowns.a has median = -1.0: it must be positive"),
        ("median = 1.0", "median = [1.0, 2.0, 3.0]", "the prior of 'a' has shape"),
        ("[unknowns.a]", '[unknowns."a b"]', "unknowns has the name 'a b': begin with a letter"),
        ("[unknowns.a]", "[unknowns.u]", "an unknown is called 'u', the name of the state"),
        ("[boundary.left]", "[boundary.lift]", r"no facet tag 'lift': did you mean 'left'\?"),
        ("[boundary.left]", "[boundry.left]", r"the file has the key 'boundry'.*'boundary'\?"),
        (
            "[noise]",
            '[engine]\nname = "mcm"\n[noise]',
            r"engine is wrong: .*'mcm': .*'mcmc'\?",
        ),
        ("[noise]", "[engine.mcmc]\nsamples = 3\n[noise]", "mcmc has no setting 'samples': .*num"),
        (
            "[noise]",
            "[engine.surrogate]\nrounds = 0\n[noise]",
            "rounds of surrogate is 0: give a whole",
        ),
        ("[domain]", 'crs = "WGS84"\n[domain]', "crs is 'WGS84': give an EPSG code"),
        ("[domain]", 'crs = "EPSG:99999"\n[domain]', "the CRS 'EPSG:99999' is not known"),
        ("[domain]", "[domain", "is not TOML: "),
        ("lower = [0, 0]", "lower = [5, 0]", "upper must be above lower"),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_what_to_write(tmp_path, old, new, message):
    path = written(tmp_path, swapped(old, new))
    with pytest.raises(RieszError, match=message) as told:
        read_problem(path)
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("wells", "message"),
    [
        ("", "is empty"),
        ("x,y,value\n", "has no rows below its first line"),
        ("x,y,head\n1,0.5,2\n", "has no column 'value': It has x, y, head"),
        ("x,y,valeu\n1,0.5,2\n", r"has no column 'value': did you mean 'valeu'\?"),
        ("x,x,y,value\n1,1,0.5,2\n", "has 2 columns 'x'"),
        ("x,y,value\n1,0.5,2\n1,0.5,nan\n", "line 3: value is 'nan', not a finite number .1 of 2"),
        ("x,y,value\n1,0.5,2\n\n1,O.5,2\n", "line 4: y is 'O.5', not a finite number"),
        ("x,y,value\n1,0.5\n", "line 2: value is nothing, not a finite number"),
        ("x,y,value\n1,0.5,inf\n", "line 2: value is 'inf'"),
        ("x,y,value\n1,0.5,\n", "line 2: value is '', not a finite number"),
        ("x,y,value\ninf,0.5,1\n", "line 2: x is 'inf'"),
        ("x,y,value\n1,0.5,1_0\n", "line 2: value is '1_0', not a finite number"),
        ("x,y,value\n1,0.5,2\n1,0,5,2\n", "line 3: 3 columns were expected, 4 found: decimal c"),
        ("x,y,value,\n1,0,5,2\n", "line 2: 3 columns were expected, 4 found"),
        ("# by hand\n1,0,2\n", "line 2: 3 columns .* first line names only 'by hand'"),
        ("x;y;value\n1;0,5;2\n1;0,5;2;3\n", "line 3: 3 columns .* name all columns in the header"),
        ("X,y,value\n1,0.5,2\n", r"has no column 'x': did you mean 'X'\?"),
        ("x,y,value\n1,0.5,2\n\n3,0.5,2\n3,9,2\n", r"2 of 3 points lie .* line 4 at \(3, 0.5\)"),
    ],
)
def test_a_bad_table_is_told_with_its_line(tmp_path, wells, message):
    with pytest.raises((FileFormatError, MeshError), match=message) as told:
        read_problem(written(tmp_path, wells=wells))
    assert str(tmp_path / "wells.csv") in str(told.value)


def test_blank_cells_beyond_the_header_do_no_harm(tmp_path):
    path = tmp_path / "wells.csv"
    path.write_text("x,y,value\n1,0.5,2,, \n")
    np.testing.assert_array_equal(read_table(path).numbers("value"), [2.0])


def test_missing_files_are_told(tmp_path):
    path = tmp_path / "problem.toml"
    with pytest.raises(FileFormatError, match=r"problem\.toml cannot be read"):
        read_problem(path)
    written(tmp_path)
    (tmp_path / "wells.csv").unlink()
    with pytest.raises(FileFormatError, match=r"wells\.csv cannot be read"):
        read_problem(path)


PRIORS = {
    'prior = "normal"\nmean = [0, 1]\nsd = 2': dist.Normal,
    'prior = "lognormal"\nmedian = 2\nlog_sd = 0.5': dist.LogNormal,
    'prior = "half-normal"\nsd = 2': dist.HalfNormal,
    'prior = "uniform"\nlow = 1\nhigh = 2': dist.Uniform,
    'prior = "log-uniform"\nlow = 1\nhigh = 2': dist.LogUniform,
    'prior = "gp"\nmean = 1\nsd = 2\nlength_scale = 0.5': GP,
    'prior = "boundary-gp"\nmean = 1\nsd = 2\ntrend_sd = 3\ninducing = 4': BoundaryGP,
    'prior = "log-gp"\nmedian = 1\nlog_sd = 2\ninducing = 7': GP,
    'prior = "kl"\nmean = 1\nsd = 2\nterms = 3\nkernel = "rbf"': KarhunenLoeve,
    'prior = "log-kl"\nmedian = 1\nlog_sd = 2': KarhunenLoeve,
    'prior = "spde"\nmean = 1\nsd = 2\nlearn_scales = true': SPDEField,
    'prior = "log-spde"\nmedian = 1\nlog_sd = 2\nlength_scale = 3': SPDEField,
    'prior = "regions"\nmean = { clay = 1, rest = 3 }\nsd = 2': Regions,
    'prior = "log-regions"\nmedian = { clay = 1 }\nlog_sd = { clay = 2 }': Regions,
}


@pytest.mark.parametrize(("content", "kind"), PRIORS.items())
def test_every_prior_can_be_written(content, kind):
    regions = {"regions": {"clay": {"file": "clay.geojson"}}}
    tables = tomllib.loads(SQUARE) | {"unknowns": {"a": tomllib.loads(content)}} | regions
    assert isinstance(ProblemTables.model_validate(tables).unknowns["a"].distribution(), kind)


def test_a_length_scale_may_be_given_for_each_axis():
    content = 'prior = "gp"\nmean = 1\nsd = 2\nlength_scale = [0.5, 0.1]\nkernel = "rbf"'
    tables = tomllib.loads(SQUARE) | {"unknowns": {"a": tomllib.loads(content)}}
    kernel = ProblemTables.model_validate(tables).unknowns["a"].distribution().kernel
    found = kernel.matrix(np.zeros((1, 2)), np.array([[0.5, 0.0], [0.0, 0.1]]))
    np.testing.assert_allclose(found, 4 * np.exp(-0.5))
    assert kernel.describe() == "RBF with length scale 0.5 x 0.1 and sd 2"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('prior = "normal"\nmean = [0, 1, 2]\nsd = [1, 2]', "parameters of 3 and 2 components"),
        ('prior = "uniform"\nlow = 2\nhigh = 1', "low must be below"),
        ('prior = "log-uniform"\nlow = 2\nhigh = 1', "low must be below"),
        ('prior = "gp"\nmean = 0\nsd = 0', "unknowns.a.sd is 0: give a number above 0"),
        (
            'prior = "gp"\nmean = 0\nsd = 1\nlength_scale = [1, 0]',
            r"unknowns.a.length_scale is \[1, 0\]: give a number above 0, or one for each axis",
        ),
        ('prior = "spde"\nmean = 0\nsd = 1\nlength_scale = [1, 2]', "unknowns.a.length_scale is"),
        ('prior = "gp"\nmean = 0\nsd = 1\nkernel = "matern"', "unknowns.a.kernel is 'matern': did"),
        ('prior = "spde"\nmean = 0\nsd = 1\nkernel = "rbf"', "unknowns.a has the key 'kernel'"),
        ('prior = "regions"\nmean = 0\nsd = 1', "values by region at unknowns.a, but no regions"),
        (
            'prior = "regions"\nmean = 0\nsd = { clay = 0 }',
            "has sd = {'clay': 0.0}: it must be",
        ),
        (
            'prior = "log-regions"\nmedian = -1\nlog_sd = 1',
            "has median = -1.0: it must be positive",
        ),
        (
            'prior = "regions"\nmean = "clay"\nsd = 1',
            "mean is 'clay': give a finite number, or",
        ),
        (
            'prior = "regions"\nmean = { clay = 1 }\nsd = { caly = 1 }',
            r"has no mean for the region 'caly': did you mean 'clay'\?",
        ),
    ],
)
def test_impossible_priors_are_told(tmp_path, content, message):
    body = SQUARE.split("[unknowns.a]", maxsplit=1)[0] + f"[unknowns.a]\n{content}\n"
    with pytest.raises(RieszError, match=message):
        tables_in(tmp_path / "problem.toml", body.encode())


def test_a_place_measured_twice_is_a_note(tmp_path):
    case = read_problem(written(tmp_path, wells="x,y,value\n1,0.5,2\n1,0.5,3\n1,0.7,3\n"))
    assert case.problem.observations.num_sensors == 3
    assert (case.notes[0].code, case.notes[0].values["count"]) == ("observed_twice", 1)


def test_values_on_a_boundary_may_be_unknown(tmp_path):
    text = swapped("value = 0.0", 'value = "rim"')
    text += '[unknowns.rim]\nprior = "boundary-gp"\nmean = 1\nsd = 0.5\ninducing = 3\n'
    case = read_problem(written(tmp_path, text))
    assert case.problem.latents.names == ("a", "rim")
    assert "rim: boundary GP, Matern52 with length scale 0.5 and sd 0.5, 3 points" in str(
        case.check()
    )


def test_an_unidentified_scale_is_a_note(tmp_path):
    text = swapped("advection = [0.5, 0.0]", "").replace("source = 1.0", 'source = "f"')
    text += '[unknowns.f]\nprior = "normal"\nmean = 0.0\nsd = 1.0\n'
    case = read_problem(written(tmp_path, text))
    assert case.notes[0].code == "only_ratios"
    assert f"note: {case.notes[0]}" in str(case.check())


def test_without_levels_the_coarsest_mesh_keeps_some_edges(tmp_path):
    fine = swapped("max_edge = 0.4\nlevels = 2", "max_edge = 0.05")
    case = read_problem(written(tmp_path, fine))
    assert len(case.problem.hierarchy.meshes) == 3
    assert case.check().numbers["longest_edge"] <= 0.05


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels = 2": "levels = 1"}, "surrogate works on mini-patches of a hierarchy"),
        ({"value = 0.0": 'value = "a"'}, "but not affinely"),
        (
            {
                'density = "surrogate"': 'density = "relaxed"',
                "sd = 0.05": 'sd = 0.05\nkind = "student-t"',
            },
            "needs independent normal noise",
        ),
    ],
)
def test_an_engine_that_cannot_is_told_before_any_work(tmp_path, changes, message):
    content = f'{SQUARE}\n[engine]\nname = "gaussian-vi"\ndensity = "surrogate"\n'
    for old, new in changes.items():
        content = content.replace(old, new, 1)
    with pytest.raises(RieszError, match=message):
        read_problem(written(tmp_path, content)).choice()


@pytest.mark.parametrize("suffix", [".vtu", ".npz"])
def test_the_domain_may_be_a_mesh_of_ones_own(tmp_path, suffix):
    own = rectangle((4, 2), upper=(2, 1))
    write_mesh(tmp_path / f"own{suffix}", own)
    box = "rectangle = { lower = [0, 0], upper = [2, 1] }\nmax_edge = 0.4"
    case = read_problem(written(tmp_path, swapped(box, f'mesh = "own{suffix}"')))
    np.testing.assert_allclose(case.coarse.nodes, own.nodes)
    assert case.problem.forward.dirichlet_tags == ("left",)
    assert [m.num_nodes for m in case.problem.hierarchy.meshes] == [15, 45]
    single = swapped(f"{box}\nlevels = 2", f'mesh = "own{suffix}"')
    case = read_problem(written(tmp_path, single))
    assert case.problem.hierarchy is None
    assert case.choice().engine.name == "laplace"


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ('mesh = "none.msh"', r"none\.msh cannot be read"),
        ('mesh = "own.obj"', r"own\.obj"),
        ('mesh = "o.geojson"', "domain.mesh is 'o.geojson', an outline: name it domain.outline"),
        ('mesh = "m.msh"\nmax_edge = 1.0', "a mesh has its edges; refine it by levels instead"),
        ('outline = "m.msh"\nmax_edge = 1.0', "or name a mesh file by domain.mesh"),
    ],
)
def test_bad_domains_are_told(tmp_path, domain, message):
    box = "rectangle = { lower = [0, 0], upper = [2, 1] }\nmax_edge = 0.4\nlevels = 2"
    (tmp_path / "own.obj").write_text("")
    with pytest.raises(RieszError, match=message):
        read_problem(written(tmp_path, swapped(box, domain)))


OUTLINED = swapped(
    "rectangle = { lower = [0, 0], upper = [2, 1] }", 'outline = "o.geojson"'
).replace("[boundary.left]", "[boundary.outer]")


def outline(folder, **members):
    ring = [[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]]
    content = {"type": "Polygon", "coordinates": [ring], **members}
    (folder / "o.geojson").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_edge = 0.4", "max_edge = 1e-4"),
        ("max_edge = 0.4", "max_edge = 1e-300"),
        ("levels = 2", "levels = 14"),
    ],
)
def test_far_too_many_cells_are_told_before_meshing(tmp_path, old, new, monkeypatch):
    outline(tmp_path)
    monkeypatch.setattr("riesz.case.file.domain.mesh_from_polygon", pytest.fail)
    with pytest.raises(FileFormatError, match=r"the finest mesh would have .* cells or more"):
        read_problem(written(tmp_path, OUTLINED.replace(old, new)))


def test_a_mesh_of_ones_own_is_not_refined_without_end(tmp_path):
    write_mesh(tmp_path / "own.npz", rectangle((4, 2), upper=(2, 1)))
    box = "rectangle = { lower = [0, 0], upper = [2, 1] }\nmax_edge = 0.4\nlevels = 2"
    with pytest.raises(FileFormatError, match=r"the finest mesh would have 2.7e\+08 cells"):
        read_problem(written(tmp_path, swapped(box, 'mesh = "own.npz"\nlevels = 13')))


def test_degrees_are_a_note(tmp_path):
    assert read_problem(written(tmp_path, f'crs = "EPSG:32612"\n{SQUARE}')).notes == ()
    case = read_problem(written(tmp_path, f'crs = "EPSG:4326"\n{SQUARE}'))
    assert case.notes == (Note("crs_in_degrees", crs="EPSG:4326"),)
    assert "note: the crs EPSG:4326" in str(case.check())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("urn:ogc:def:crs:EPSG::32612", "EPSG:32612"),
        ("urn:ogc:def:crs:EPSG:9.8:32612", "EPSG:32612"),
        ("EPSG:32612", "EPSG:32612"),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326"),
        ("local", None),
    ],
)
def test_the_code_in_the_name_of_a_crs(name, code):
    assert epsg_code(name) == code


def test_an_outline_in_another_crs_is_projected(tmp_path):
    outline(tmp_path, crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32612"}})
    assert read_problem(written(tmp_path, f'crs = "EPSG:32612"\n{OUTLINED}')).notes == ()
    with pytest.raises(MeshError, match=r"2 of 2 points lie outside the domain"):
        read_problem(written(tmp_path, f'crs = "EPSG:32613"\n{OUTLINED}'))
    outline(tmp_path, crs="odd")
    assert read_problem(written(tmp_path, f'crs = "EPSG:2056"\n{OUTLINED}')).notes == ()


def test_wells_in_degrees_on_a_domain_in_metres_are_told_as_such(tmp_path):
    far = "rectangle = { lower = [3e5, 4e6], upper = [4e5, 4.1e6] }"
    metres = SQUARE.replace("rectangle = { lower = [0, 0], upper = [2, 1] }", far)
    metres = metres.replace("max_edge = 0.4", "max_edge = 4e4")
    degrees = "x,y,value\n-113.2,43.1,0.3\n-112.9,43.4,0.9\n"
    with pytest.raises(MeshError, match=r"points look like longitude and latitude in degrees"):
        read_problem(written(tmp_path, metres, degrees))
    with pytest.raises(MeshError, match=r"domain looks like longitude .* say which coord"):
        read_problem(written(tmp_path, SQUARE, "x,y,value\n3.5e5,4.05e6,0.3\n"))
    with pytest.raises(MeshError, match=r"drop them by .* or see that both are in the same"):
        read_problem(written(tmp_path, SQUARE, "x,y,value\n3,0.5,0.3\n"))


GIVEN = {
    "epsilon_rel": '"learned"',
    "gram": "{ diffusivity = 2.0, reaction = 1.0 }",
    "kernel": '"nuts"',
    "start": '"laplace"',
    "linear_solver": '"dense"',
    "dense_mass": "false",
    "tries_states": "false",
    "at_mode": "true",
    "tolerance": "1e-4",
    "model": '"reduced"',
    "noise_factor": "2.0",
}
"""What is not a whole number or a share, as a problem file writes it."""

BY_NUTS = ("dense_mass", "max_tree_depth")


@pytest.mark.parametrize(
    ("part", "setting"),
    [(name, one) for name in (*METHODS, *DENSITIES) for one in class_of(name).model_fields],
)
def test_every_setting_of_every_part_is_reached_from_a_problem_file(part, setting):
    default = getattr(class_of(part)(), setting)
    text = GIVEN.get(setting) or ("0.03" if isinstance(default, float) else "7")
    needed = 'kernel = "nuts"\n' if setting in BY_NUTS else ""
    content = f"{SQUARE}\n[engine.{part}]\n{needed}{setting} = {text}\n"
    tables = ProblemTables.model_validate(tomllib.loads(content))
    method, density = (part, None) if part in METHODS else ("mcmc", part)
    engine = engine_of(method, density, tables.engine.settings)
    found = engine.settings()[setting if part == AMORTISE else f"{part}.{setting}"]
    assert type(found) is not str or found == text.strip('"')
    assert repr(found) != repr(default)


@pytest.mark.parametrize("part", [*METHODS, *DENSITIES])
def test_a_misspelt_setting_of_any_part_is_told_with_the_nearest_one(part):
    setting = next(iter(class_of(part).model_fields))
    content = f"{SQUARE}\n[engine.{part}]\n{setting}x = 1\n"
    with pytest.raises(ValueError, match=f"has no setting '{setting}x': did you mean '{setting}'"):
        ProblemTables.model_validate(tomllib.loads(content))


def test_a_setting_in_the_table_of_all_engines_is_sent_to_its_own(tmp_path):
    body = f'{SQUARE}[engine]\nlinear_solver = "dense"\n'
    with pytest.raises(FileFormatError, match=r"write it in \[engine.exact\], as a setting of"):
        read_problem(written(tmp_path, body))


@pytest.mark.parametrize(
    ("old", "taken"),
    [
        ('name = "laplace"', pair("laplace")),
        ('name = "mcmc(marginal)"', pair("mcmc(marginal)")),
        ('name = "variational"', pair("gaussian-vi")),
        ('name = "sample"\nsample = { num_chains = 2 }', pair("mcmc", num_chains=2)),
        ('name = "nuts"\nnuts = { num_samples = 7 }', pair("mcmc", kernel="nuts", num_samples=7)),
        (
            'name = "nuts"\nnuts = { start = "sample" }',
            pair("mcmc", kernel="nuts", start=rz.MCMC()),
        ),
        ('name = "reduced"\nreduced = { num_modes = 9 }', pair("mcmc(reduced-basis)", num_modes=9)),
        ('name = "emulate"\nemulate = { rounds = 3 }', pair("gaussian-vi(surrogate)", rounds=3)),
        (
            'name = "relax"\nrelax = { epsilon_rel = 2.0 }',
            pair("gaussian-vi(relaxed)", epsilon_rel=2.0),
        ),
        (
            'name = "conditional"\nconditional = { num_others = 7 }',
            pair("laplace(marginal)", num_values=7),
        ),
        (
            'name = "conditional"\nconditional = { over = "mode" }',
            pair("laplace(marginal)", at_mode=True),
        ),
        (
            'name = "conditional"\nconditional = { over = "nuts" }',
            pair("mcmc(marginal)", kernel="nuts"),
        ),
        (
            'name = "sample"\nsample = { num_chains = 3 }\nnuts = { num_samples = 5 }',
            pair("mcmc", num_chains=3),
        ),
        (
            'name = "laplace"\nlaplace = { linear_solver = "dense", num_modes = 7 }',
            pair("laplace", linear_solver="dense", num_modes=7),
        ),
    ],
)
def test_engines_of_earlier_versions_are_read_with_a_word_about_what_to_write(old, taken):
    table = EngineTable.model_validate(tomllib.loads(old))
    assert engine_of(table.name, table.density, table.settings) == taken
    name = old.split('"')[1]
    told = [note.values["old"] for note in table.notes if note.code == "engine_renamed"]
    assert told == ([name] if name in RENAMED else [])
    assert EngineTable.model_validate(table.model_dump()).notes == ()


def test_an_engine_of_an_earlier_version_is_told_with_the_problem(tmp_path):
    body = f'{SQUARE}[engine]\nname = "nuts"\n'
    case = read_problem(written(tmp_path, body))
    assert case.choice().engine == pair("mcmc", kernel="nuts")
    assert case.notes == (Note("engine_renamed", old="nuts", method="mcmc", density="exact"),)


def test_settings_of_a_method_are_left_out_where_auto_takes_a_density_that_would_not_read_them():
    settings = {"laplace": {"num_modes": 7}, "marginal": {"num_values": 9}}
    of_file = partial(with_settings, settings=settings)
    assert of_file(pair("laplace")) == pair("laplace", num_modes=7)
    assert of_file(pair("laplace(marginal)")) == pair("laplace(marginal)", num_values=9)


def test_tables_of_engines_that_auto_never_took_have_no_effect_beside_it():
    table = EngineTable.model_validate(tomllib.loads("nuts = { num_samples = 5 }"))
    assert engine_of("mcmc", None, table.settings) == pair("mcmc")
    table = EngineTable.model_validate(tomllib.loads("sample = { num_samples = 5 }"))
    assert engine_of("mcmc", None, table.settings) == pair("mcmc", num_samples=5)
