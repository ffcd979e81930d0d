"""A run folder with a posterior made up by hand: no fit, and hardly anything to compile."""

import dataclasses
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from tests.pairs import pair
from tests.small_problem import problem_toml

from riesz.case.file.problem import read_problem
from riesz.case.run.fit import Account, write_run
from riesz.diagnose.criticism.findings import Finding, Misfit
from riesz.diagnose.facts import fit_facts
from riesz.diagnose.summary import Summary
from riesz.inference.fit import Choice
from riesz.io.store.draws import StoredDraws
from riesz.notes import text_note
from riesz.posterior.family import MeanField
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.drawing import posterior_draws

FOUND = Misfit(
    (
        Finding("region", text_note("2 observations <b>lie</b> 2.1 sd above"), (), (0, 1), 0.0005),
        Finding("prior", text_note("The data pull level away"), ("level",), (), 0.004),
    ),
    np.linspace(3.0, -3.0, 9),
    np.array([0.9, *np.zeros(7), np.nan]),
    tuple(f"well {name}" for name in "<ABCDEFGH"),
)
"""Made up: what contradicts the model."""

REMARK = "kriging does as well here: these data show no <i>gain</i>"
"""As `riesz fit` leaves it where it compared."""

NUM_DRAWS = 30
"""That are kept: few, since each takes a solve."""

PROBLEM = "# a <b>comment</b> & more\n" + problem_toml(
    crs="EPSG:32612",
    domain={
        "rectangle": {"lower": [350_000, 4_800_000], "upper": [354_000, 4_802_000]},
        "max_edge": 800,
        "levels": 1,
    },
    observations={"x": "x_m", "y": "y_m", "value": "VALUE", "unit": "m"},
    noise=2.0,
    equation={"diffusion": "conductivity", "source": 2e-4},
    boundary={"boundary": "level"},
    unknowns={
        "conductivity": {"prior": "log-kl", "median": 20.0, "log_sd": 0.7}
        | {"length_scale": 3000, "terms": 2},
        "level": {"prior": "normal", "mean": 100.0, "sd": 5.0},
    },
)


EXCHANGE = """
[[wells]]
file = "pumping.csv"
[[rivers]]
file = "river.geojson"
stage = 101.0
conductance = 0.01
[regions.west]
file = "land.geojson"
"""

LAND = {
    "type": "Polygon",
    "coordinates": [[[3e5, 4.7e6], [352_000, 4.7e6], [352_000, 4.9e6], [3e5, 4.9e6], [3e5, 4.7e6]]],
}
RIVER = {"type": "LineString", "coordinates": [[352_000, 4_799_000], [352_500, 4_803_000]]}


LOGARITHMS = {
    'unit = "m"': 'unit = "mg/l"\ntransform = "log"',
    "sd = 2.0": "sd = 0.4",
    "source = 0.0002": "source = 1e-5",
    "mean = 100.0\nsd = 5.0": "mean = 1.0\nsd = 0.5",
}
"""Of the same problem, where the state is the logarithm of a concentration."""


def tiny_run(
    folder: Path,
    *,
    value: str = "head_m",
    name: str = "run",
    exchange: bool = False,
    num_below: int = 0,
    logarithm: bool = False,
    num_draws: int = NUM_DRAWS,
    misfit: Misfit | None = None,
) -> Path:
    """Write a run folder into `folder`, whose wells have a column called `value`.

    With `exchange` there are a well, a river and a region too, of files that are gone afterwards.
    `num_below` wells, the first ones, are only known to lie below what is written. Without
    `num_draws` it is like one of an older version, which kept none, as are those without `misfit`.
    """
    rng = np.random.default_rng(0)
    points = rng.uniform((350_200, 4_800_200), (353_800, 4_801_800), (9, 2))
    values = 103.0 + rng.normal(size=9)
    text = PROBLEM.replace("VALUE", value)
    if logarithm:
        values = np.exp((values - 103.0) / 2 + 1)
        for before, after in LOGARITHMS.items():
            text = text.replace(before, after)
    marks = ["<"] * num_below + [""] * (9 - num_below)
    rows = [
        f"{x:.1f},{y:.1f},{mark}{v:.3f}"
        for (x, y), v, mark in zip(points, values, marks, strict=True)
    ]
    (folder / "wells.csv").write_text("\n".join([f"x_m,y_m,{value}", *rows]) + "\n")
    (folder / "problem.toml").write_text(text + EXCHANGE if exchange else text)
    (folder / "pumping.csv").write_text("x,y,rate\n351000,4800900,-40\n")
    (folder / "river.geojson").write_text(json.dumps(RIVER))
    (folder / "land.geojson").write_text(json.dumps(LAND))
    case = read_problem(folder / "problem.toml")
    for file in ("pumping.csv", "river.geojson", "land.geojson"):
        (folder / file).unlink()
    posterior = Posterior(
        case.problem,
        MeanField(jnp.array([0.3, -0.2, 0.1]), jnp.log(jnp.array([0.5, 0.9, 0.1]))),
        ExactStates(),
        {"misfit": jnp.geomspace(1e4, 1.0, 50)},
        "laplace",
        0,
        (text_note("a <i>note</i>"),),
    )
    case = dataclasses.replace(case, remarks=(REMARK,))
    short = Summary("laplace", ({"unknown": "level"},), 9, 1.0, 0.95, (), num_censored=num_below)
    kept = None
    if num_draws:
        kept = StoredDraws(posterior_draws(posterior, num_draws=num_draws), fit_facts(posterior))
    write_run(
        folder / name,
        case,
        Account(posterior, short, kept, misfit=misfit),
        choice=Choice(pair("laplace"), text_note("so")),
        command="riesz fit problem.toml",
        seed=0,
        seconds=12.0,
    )
    return folder / name
