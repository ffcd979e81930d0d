"""Fluxes and exchange through boundaries, regions, tensors and fields on nodes in problem files.

Held to closed forms that are piecewise linear, and to the same problem in Python.
"""

import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import riesz as rz
from riesz.case.check.description import boundary_lines, exchange_numbers, regions_lines
from riesz.case.file.equation import as_tensor
from riesz.case.file.problem import inputs_content, read_case, read_problem
from riesz.diagnose.summary import summary_rows
from riesz.mesh.mesh import Mesh
from riesz.notes import Note
from riesz.prediction.drawing import draws_of_unknown, interior_fields

STRIP = """crs = "EPSG:32612"
[domain]
rectangle = { lower = [0, 0], upper = [2100, 500] }
max_edge = 250
levels = 2
[observations]
file = "heads.csv"
[noise]
sd = 0.1
"""

INFLOW = """
[unknowns.q]
prior = "normal"
mean = 3.0
sd = 1.0
"""


def square(x, y, width, height):
    ring = [[x, y], [x + width, y], [x + width, y + height], [x, y + height], [x, y]]
    return {"type": "Polygon", "coordinates": [ring]}


def feature(geometry, **properties):
    return {"type": "Feature", "properties": properties, "geometry": geometry}


GEOLOGY = [
    feature(square(-100, -100, 625, 400), unit="Qg"),  # up to x = 525, an edge of fine cells only
    feature(square(-100, 200, 625, 400), unit="Qg"),  # overlaps the one before
    feature(square(525, -100, 700, 800), unit="Kc"),
    feature(square(1e6, 1e6, 10, 10), unit="Kc"),
]

REGIONS = """
[regions.gravel]
file = "geology.geojson"
where = { unit = "Qg" }
[regions.clay]
file = "geology.geojson"
where = { unit = ["Kc", "Kd"] }
"""


def written(folder, body):
    (folder / "heads.csv").write_text("x,y,value\n300,100,1.0\n900,300,1.0\n1700,200,1.0\n")
    content = {"type": "FeatureCollection", "features": GEOLOGY}
    (folder / "geology.geojson").write_text(json.dumps(content))
    path = folder / "problem.toml"
    path.write_text(STRIP + body)
    return path


def state_of(case, *coordinates):
    """At the medians of the unknowns, or at these coordinates, with the places of the nodes."""
    at = jnp.asarray(coordinates or np.zeros(case.problem.num_coordinates))
    state = eqx.filter_jit(lambda problem, one: problem.state(one))(case.problem, at)
    return np.asarray(state), case.problem.forward.space.mesh.nodes[:, 0]


def test_what_enters_on_one_side_leaves_by_exchange_on_the_other(tmp_path):
    """u = stage + q / c + q x / a: the whole inflow q crosses the strip and its end."""
    body = """
[equation]
diffusion = 50.0
[boundary.right]
inflow = "q"
[boundary.left]
conductance = 0.2
stage = 7.0
"""
    case = read_problem(written(tmp_path, body + INFLOW))
    state, x = state_of(case, -1.0)
    np.testing.assert_allclose(state, 7.0 + 2.0 / 0.2 + 2.0 * x / 50.0, rtol=1e-12)
    assert boundary_lines(case) == [
        "right, 0.5 km: unknown 'q' enters by length",
        "left, 0.5 km: exchange with the stage 7 by the conductance 0.2",
    ]
    told = exchange_numbers(case)["boundary"]
    assert told == {"right": {"inflow": "q"}, "left": {"conductance": 0.2, "stage": 7.0}}
    assert not [note for note in case.notes if note.code == "idle_boundary"]


LAYERS = """
[equation]
diffusion = { gravel = 12.0, clay = "k", rest = 3.0 }
anisotropy = { along = 10.0, across = 2.0, angle = 90 }
[boundary.left]
value = 0.0
[boundary.right]
inflow = 5.0
[unknowns.k]
prior = "lognormal"
median = 0.5
log_sd = 1.0
"""


@pytest.mark.slow
def test_a_flux_across_layers_falls_by_its_resistances(tmp_path):
    """In series, and by the smaller principal value: the larger one lies along the layers."""
    case = read_problem(written(tmp_path, LAYERS + REGIONS))
    state, x = state_of(case)
    ends, resistances = [0, 525, 1225, 2100], 1 / np.array([12.0, 0.5, 3.0])
    falls = np.concatenate([[0.0], np.cumsum(np.diff(ends) * resistances)])
    np.testing.assert_allclose(state, 5.0 / 2.0 * np.interp(x, ends, falls), rtol=1e-10, atol=1e-9)
    assert regions_lines(case) == [
        "gravel of geology.geojson: 25 % of the area",
        "clay of geology.geojson: 33.3 % of the area",
    ]
    assert exchange_numbers(case)["regions"] == pytest.approx({"gravel": 1 / 4, "clay": 1 / 3})
    assert "gravel: 12.0; clay: unknown 'k'; rest: 3.0" in str(case.problem)


def test_a_run_reads_its_regions_again_without_the_map(tmp_path):
    case = read_problem(written(tmp_path, LAYERS + REGIONS))
    kept = inputs_content(case)
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    assert len(json.loads(kept["regions.geojson"])["features"]) == 3  # one is far away
    (tmp_path / "geology.geojson").unlink()
    again = read_case(case.path, coarse=case.coarse, kept=tmp_path)
    found, wanted = (one.problem.forward.space.mesh for one in (again, case))
    np.testing.assert_array_equal(found.nodes, wanted.nodes)
    for name in ("gravel", "clay"):
        np.testing.assert_array_equal(found.regions[name], wanted.regions[name])


WHOLE = """
[equation]
diffusion = { clay = "k", gravel = 2.0, rest = "bulk" }
anisotropy = { gravel = [[2.0, 0.5], [0.5, 1.0]], rest = { along = 3.0, across = 1.0 } }
advection = { gravel = [0.3, 0.1], rest = [0.0, 0.2] }
upwind = true
reaction = 1e-5
source = "r"
[boundary.left]
value = 1.0
[boundary.top]
inflow = "r"
[boundary.right]
conductance = "bed"
stage = "q"
[unknowns.k]
prior = "log-spde"
median = 5.0
log_sd = 0.5
[unknowns.bulk]
prior = "lognormal"
median = 4.0
log_sd = 1.0
[unknowns.r]
prior = "regions"
mean = { gravel = 1.0, clay = 2.0, rest = 3.0 }
sd = 0.5
[unknowns.bed]
prior = "lognormal"
median = 0.1
log_sd = 1.0
"""


def whole_in_python(mesh: Mesh) -> rz.InverseProblem:
    gravel, clay = (np.isin(np.arange(mesh.num_cells), mesh.regions[n]) for n in ("gravel", "clay"))
    tensors = np.where(gravel[:, None, None], [[2.0, 0.5], [0.5, 1.0]], np.diag([3.0, 1.0]))
    velocities = np.where(gravel[:, None], [0.3, 0.1], [0.0, 0.2])

    def flow(u, v, *, k, tensor):
        return (k * (tensor @ u.grad)) @ v.grad

    def part(k, share):  # of degree 0 but for what k adds, as diffusion is
        tensor = rz.per_cell(share[:, None, None] * tensors)
        return rz.integral(flow, degree=0, k=k, tensor=tensor)

    form = (
        part("k", clay)
        + part(2.0, gravel)
        + part("bulk", ~gravel & ~clay)
        + rz.advection(rz.per_cell(velocities), supg=True)
        + rz.reaction(1e-5)
        - rz.source("r")
        - rz.neumann("r", on="top")
        + rz.robin("bed", "q", on="right")
    )
    means = {"gravel": 1.0, "clay": 2.0}
    return rz.inverse_problem(
        mesh,
        form,
        latents={
            "k": rz.SPDEField(0.5, 525.0, float(np.log(5.0)), jnp.exp),
            "bulk": dist.LogNormal(np.log(4.0), 1.0),
            "r": rz.Regions(
                {name: dist.Normal(mean, 0.5) for name, mean in means.items()},
                rest=dist.Normal(3.0, 0.5),
            ),
            "bed": dist.LogNormal(np.log(0.1), 1.0),
            "q": dist.Normal(3.0, 1.0),
        },
        observations=rz.observations([[300.0, 100.0]], [1.0]),
        likelihood=rz.Gaussian(0.1),
        dirichlet={"left": 1.0},
    )


@pytest.mark.slow
def test_all_together_is_the_same_problem_as_in_python(tmp_path):
    case = read_problem(written(tmp_path, WHOLE + INFLOW + REGIONS))
    problem = case.problem
    mesh = problem.forward.space.mesh
    own = whole_in_python(mesh)
    rng = np.random.default_rng(0)
    coordinates, state = (
        jnp.asarray(rng.normal(size=size)) for size in (problem.num_coordinates, mesh.num_nodes)
    )

    @eqx.filter_jit
    def residual(problem, coordinates):
        return rz.fem.residual(problem.forward, state, problem.z(coordinates))

    found, wanted = (np.asarray(residual(one, coordinates)) for one in (problem, own))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    assert interior_fields(problem) == ("k", "r")
    sizes = dict.fromkeys(problem.latents.names, 1) | {"k": mesh.num_nodes, "r": 3}
    draws = {name: draws_of_unknown(problem, name, np.ones((2, n))) for name, n in sizes.items()}
    assert [row["unknown"] for row in summary_rows(draws, mesh)] == [
        *("k (mean over the nodes)", "bulk", "r[gravel]", "r[clay]", "r[rest]", "bed", "q")
    ]
    told = str(problem)
    assert "clay: unknown 'k'; gravel: 2.0; rest: unknown 'bulk'" in told
    assert "k: Matern field by a stochastic PDE, sd 0.5, length scale 525" in told
    assert "r: one value a region; gravel: Normal" in told


def test_a_tensor_has_the_principal_values_and_the_angle_that_are_given():
    tensor = np.array(as_tensor({"along": 9.0, "across": 2.0, "angle": 30}, ""))
    direction = np.array([np.sqrt(3) / 2, 1 / 2])
    np.testing.assert_allclose(tensor @ direction, 9.0 * direction, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.eigvalsh(tensor), [2.0, 9.0], rtol=1e-12)
    assert as_tensor({"along": 9, "across": 2}, "") == [[9.0, 0.0], [0.0, 2.0]]


def test_an_inflow_where_u_is_prescribed_is_a_note(tmp_path):
    body = LAYERS.replace("[boundary.left]", "[boundary.boundary]")
    case = read_problem(written(tmp_path, body + REGIONS))
    assert Note("idle_boundary", tag="right") in case.notes


def test_regions_may_come_from_a_mesh_file(tmp_path):
    case = read_problem(written(tmp_path, LAYERS + REGIONS))
    rz.io.write_mesh(tmp_path / "own.npz", case.problem.forward.space.mesh)
    box = STRIP[STRIP.index("rectangle") : STRIP.index("[observations]")]
    own = STRIP.replace(box, 'mesh = "own.npz"\n')
    path = tmp_path / "own.toml"
    path.write_text(own + LAYERS)
    again = read_problem(path)
    assert regions_lines(again) == ["gravel: 25 % of the area", "clay: 33.3 % of the area"]
    path.write_text(own + LAYERS.replace("clay =", "caly ="))
    with pytest.raises(
        rz.errors.MeshError, match=r"diffusion: there is no region 'caly': .*'clay'\?"
    ):
        read_problem(path)


@pytest.mark.slow
def test_laplace_finds_the_diffusivity_of_a_region(tmp_path):
    case = read_problem(written(tmp_path, LAYERS + REGIONS))
    heads = np.asarray(case.problem.operator @ case.problem.state(jnp.asarray([0.6])))
    path = written(tmp_path, LAYERS + REGIONS)
    rows = [
        f"{x},{y},{head!r}"
        for (x, y), head in zip(case.problem.observations.points, heads.tolist(), strict=True)
    ]
    (tmp_path / "heads.csv").write_text("\n".join(["x,y,value", *rows]) + "\n")
    found = rz.fit(read_problem(path).problem, "laplace", seed=0)
    assert float(found.coordinate_mean()[0]) == pytest.approx(0.6, abs=0.01)
