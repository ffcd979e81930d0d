"""A run folder of a problem in time, with draws made up by hand: nothing is marched or compiled."""

import datetime
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from tests.pairs import pair
from tests.prediction.made_up_draws import FACTS, made_up_draws
from tests.small_problem import problem_toml, rectangle, table, written

from riesz.case.file.problem import read_problem
from riesz.case.run.fit import Account, write_run
from riesz.inference.fit import Choice
from riesz.io.store.draws import StoredDraws
from riesz.notes import text_note
from riesz.posterior.family import MeanField
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.draws import Course, NodalDraws, NumberDraws, Observed, exactly

NUM_DRAWS = 8
START, END = datetime.date(1980, 1, 1), datetime.date(1980, 6, 29)

PROBLEM = "\n".join(
    [
        problem_toml(
            domain=rectangle([2, 1], max_edge=0.5),
            observations={"site": "well", "date": "day", "unit": "m"},
            equation={"storage": "s", "diffusion": 0.01, "source": "rain"},
            boundary={"left": 1.0, "right": "lake"},
            unknowns={"s": {"prior": "lognormal", "median": 1.0, "log_sd": 0.3}},
        ),
        table("time", {"start": START, "end": END, "step": 30, "scheme": "euler"}),
        table("series.rain", {"file": "rain.csv"}),
        table("series.lake", {"file": "lake.csv", "kind": "linear"}),
        '[[wells]]\nfile = "pumped.csv"\ndate = "day"\nname = "well"\n',
    ]
)
TABLES = {
    "rain.csv": "date,value\n1980-01-01,0.001\n1980-03-01,0.004\n",
    "lake.csv": "date,value\n1980-01-01,1\n1980-06-29,0.5\n",
    "pumped.csv": "well,x,y,rate,day\nP,1,0.5,-0.001,1980-01-01\nQ,1.2,0.5,-0.002,1980-01-01\n",
}
READ = "\n".join(
    [
        "well,x,y,value,day",
        "A,0.5,0.5,1.1,1980-02-15",
        "A,0.5,0.5,1.0,1980-05-15",
        "B,1.5,0.4,0.9,1980-03-31",
        "",
    ]
)


def case_in_time(folder: Path):
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    case = read_problem(written(folder, PROBLEM, READ))
    for name in TABLES:
        (folder / name).unlink()  # a run has its own
    return case


def fallen(points, times, num_draws=NUM_DRAWS):
    """A state that falls with time and towards the right, a little more in some draws."""
    order = np.arange(num_draws)
    order = order if num_draws == NUM_DRAWS else np.random.default_rng(0).permutation(order)
    draw = 1 + 0.8 * order[:, None, None] / num_draws
    return 1.5 - draw * times[:, None] / 365 * points[:, 0]


def tiny_run_in_time(folder: Path, num_draws: int = NUM_DRAWS) -> Path:
    """Six steps of thirty days; the observed places are called A and B."""
    case = case_in_time(folder)
    problem, axis = case.problem, case.problem.time.axis
    mesh, seen = problem.forward.space.mesh, case.prepared.points
    every = fallen(mesh.nodes, axis.times, num_draws)
    states = fallen(seen, axis.times, num_draws)
    read = np.stack([states[:, k, i] for i, k in enumerate((2, 4, 3))], axis=1)
    made_up = made_up_draws(num_draws=num_draws, noise=0.05)
    draws = replace(
        made_up,
        mesh=mesh,
        state=NodalDraws(exactly(every[:, -1]), False),
        unknowns={"s": NumberDraws(np.linspace(0.8, 1.2, num_draws)[:, None], ())},
        observed=Observed(
            *(seen, case.prepared.values, case.prepared.censored),
            *(exactly(read), exactly(np.full(read.shape, 0.05)), exactly(read)),
        ),
        mapped=(),
        flux=None,
        gains={},
    )
    shown, places = np.array([0, 3, 6]), np.unique(seen, axis=0)
    course = Course(
        axis,
        shown,
        exactly(every[:, shown].reshape(num_draws, -1)),
        places,
        exactly(fallen(places, axis.times, num_draws).reshape(num_draws, -1)),
        draws.shifts,
    )
    family = MeanField(jnp.array([0.3]), jnp.log(jnp.array([0.5])))
    write_run(
        folder / "run",
        case,
        Account(
            Posterior(problem, family, ExactStates(), {}, "laplace", 0),
            stored=StoredDraws(draws, FACTS, course),
        ),
        choice=Choice(pair("laplace"), text_note("so")),
        command="riesz fit problem.toml",
        seed=0,
        seconds=12.0,
    )
    return folder / "run"
