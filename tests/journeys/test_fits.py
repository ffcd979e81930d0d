"""Fits that were stopped, fits of two sites, a nonlinear equation and one in time: scored."""

import json
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.journeys import strip
from tests.journeys.heads import read_column, write_table

import riesz as rz


@pytest.mark.parametrize(
    ("months", "edge", "engine"),
    [
        pytest.param(strip.MONTHS[13 * 12 :], 250, "laplace", id="four years"),
        pytest.param(strip.MONTHS, 110, "auto", id="seventeen years", marks=pytest.mark.slow),
    ],
)
def test_monthly_recharge_tells_storage_and_forecasts_a_well_that_was_not_read(
    riesz, months, edge, engine
):
    """Monthly steps do; see tests/journeys/strip.py for the truth."""
    strip.write_problem(riesz.folder, months, edge, engine)
    riesz("riesz check problem.toml")
    riesz("riesz fit problem.toml --out run --quiet")
    days = np.array(["2001-06-01", "2002-07-01", "2004-12-01"], dtype="datetime64[D]")
    write_table(riesz.folder / "new.csv", ["x", "y"], [["520", "100"]])
    at = ",".join(map(str, days))
    riesz(
        f"riesz predict run --points new.csv --at {at} --quantity u "
        "--stat mean,q2.5,q97.5 --out new_heads.csv"
    )
    (truth,) = strip.heads(np.array([520.0]), days, months)
    mean = read_column(riesz.folder / "new_heads.csv", "u_mean")
    np.testing.assert_allclose(mean, truth, atol=strip.NOISE)
    run = rz.read_run(riesz.folder / "run")
    for name, known in (("S", strip.STORAGE), ("T", strip.TRANSMISSIVITY)):
        mean, sd = run.posterior.mean(name), run.posterior.sd(name)
        assert abs(mean - known) < 3 * sd + 0.01 * known


def test_a_water_table_gives_its_conductivity_and_heads_between_the_wells():
    r"""$-(K u u')' = R$ between two rivers: $u^2 = 100 + R x (L - x) / K$."""
    length, rain, conductivity, noise = 500.0, 2e-3, 5.0, 0.02

    def level(x):
        return np.sqrt(100 + rain * x * (length - x) / conductivity)

    x = np.linspace(40, 460, 12)
    heads = level(x) + noise * np.random.default_rng(5).normal(size=len(x))
    equation = rz.diffusion(lambda x, z, u, grad: z["k"] * u) - rz.source(rain)
    problem = rz.inverse_problem(
        rz.interval(32, stop=length),
        equation,
        latents={"k": dist.LogNormal(jnp.log(2.0), 1.0)},
        dirichlet={"left": 10.0, "right": 10.0},
        observations=rz.observations(x[:, None], heads),
        likelihood=rz.Gaussian(noise),
    )
    posterior = rz.fit(problem, "auto", seed=0)
    assert abs(posterior.mean("k") - conductivity) < 3 * posterior.sd("k")
    between = np.array([[100.0], [250.0], [333.0]])
    predicted = rz.predict(posterior, "u", at=between)
    np.testing.assert_allclose(predicted.mean, level(between[:, 0]), atol=0.03)


def test_a_fit_that_was_killed_goes_on(riesz):
    """`kill -9` after the first checkpoint; the run says the same as one that was left in peace."""
    problem = """
[domain]
rectangle = { lower = [0, 0], upper = [1, 1] }
max_edge = 0.3
[observations]
file = "wells.csv"
[noise]
sd = 0.05
[equation]
diffusion = "a"
source = 1.0
[boundary.left]
value = 0.0
[unknowns.a]
prior = "lognormal"
median = 1.0
log_sd = 0.5
[engine]
name = "mcmc"
[engine.mcmc]
kernel = "nuts"
num_warmup = 100
num_samples = 600
num_chains = 2
"""
    (riesz.folder / "problem.toml").write_text(problem)
    (riesz.folder / "wells.csv").write_text("x,y,value\n0.5,0.5,0.6\n0.75,0.25,0.5\n")
    words = ["fit", "problem.toml", "--out", "run", "--checkpoint-seconds", "0", "--quiet"]
    program = "from riesz.cli.main import main; main()"
    process = subprocess.Popen([sys.executable, "-c", program, *words], cwd=riesz.folder)
    while process.poll() is None and not list(riesz.folder.glob("run*/**/*.npz")):
        time.sleep(0.2)
    process.kill()
    process.wait()
    riesz("riesz fit problem.toml --out run --resume --quiet")
    riesz("riesz fit problem.toml --out again --quiet")
    first, second = (rz.read_run(riesz.folder / name).posterior for name in ("run", "again"))
    np.testing.assert_allclose(first.mean("a"), second.mean("a"), rtol=1e-9)
    assert json.loads((riesz.folder / "run" / "manifest.json").read_text())
