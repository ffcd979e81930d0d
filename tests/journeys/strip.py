r"""A strip of aquifer beside a lake: monthly recharge, heads in closed form.

$S\,\partial_t h = T\,\partial_{xx} h + R(t)$ with $h = 50$ at the lake and no flow at the other end
has modes $\sin(\kappa_k x)$, each of which follows a recharge that is constant in a month exactly.
"""

from pathlib import Path

import numpy as np
from tests.journeys.heads import write_table

STORAGE, TRANSMISSIVITY, LAKE, LENGTH, WIDTH = 0.1, 200.0, 50.0, 1000.0, 400.0
NOISE = 0.02
MONTHS = np.arange("1988-01", "2005-02", dtype="datetime64[M]").astype("datetime64[D]")
MODES = (np.arange(200) + 0.5) * np.pi / LENGTH

PROBLEM = """
[domain]
rectangle = { lower = [0, 0], upper = [1000, 400] }
max_edge = 110

[observations]
file = "levels.csv"
site = "well"
date = "day"
value = "head_m"

[noise]
sd = 0.02

[time]
start = 1988-01-01
end = 2005-01-01
step = "month"

[equation]
storage = "S"
diffusion = "T"
source = "recharge"

[series.recharge]
file = "recharge.csv"
date = "month"
value = "m_per_day"

[boundary.left]
value = 50.0

[[wells]]
name = "P1"
x = 700
y = 200
rate = -0.01

[unknowns.S]
prior = "lognormal"
median = 0.05
log_sd = 1.0

[unknowns.T]
prior = "lognormal"
median = 100
log_sd = 1.0
"""


def recharge(months: np.ndarray = MONTHS) -> np.ndarray:
    """In metres a day: rain in winter, dry and wet years."""
    month = np.arange(len(months) - 1)
    years = np.random.default_rng(3).uniform(0.6, 1.4, len(month) // 12 + 1)
    return 1e-3 * (1 + np.cos(2 * np.pi * month / 12)) * years[month // 12]


def heads(x: np.ndarray, days: np.ndarray, months: np.ndarray = MONTHS) -> np.ndarray:
    """A row a place, a column a day; steady before the first month."""
    rates, decay = recharge(months), TRANSMISSIVITY * MODES**2 / STORAGE
    drive = 2 / (LENGTH * MODES) / STORAGE
    amplitudes = [drive * rates[0] / decay]
    for rate, length in zip(rates, np.diff(months).astype(float), strict=True):
        steady = drive * rate / decay
        amplitudes.append(steady + (amplitudes[-1] - steady) * np.exp(-decay * length))
    month = np.searchsorted(months, days, side="right") - 1
    since = (days - months[month]).astype(float)
    steady = drive * rates[month][:, None] / decay
    now = steady + (np.array(amplitudes)[month] - steady) * np.exp(-decay * since[:, None])
    return LAKE + np.sin(np.outer(x, MODES)) @ now.T


def write_problem(
    folder: Path, months: np.ndarray = MONTHS, edge: int = 110, engine: str = "auto"
) -> None:
    """Six wells, read in the middle of every third month."""
    rng, x = np.random.default_rng(4), np.array([120.0, 300, 450, 600, 800, 950])
    y, days = rng.uniform(50, 350, len(x)).round(), months[1:-1:3] + np.timedelta64(14, "D")
    read = heads(x, days, months) + NOISE * rng.normal(size=(len(x), len(days)))
    rows = [
        [f"W{i}", f"{x[i]}", f"{y[i]}", str(day), f"{value:.3f}"]
        for i in range(len(x))
        for day, value in zip(days, read[i], strict=True)
    ]
    write_table(folder / "levels.csv", ["well", "x", "y", "day", "head_m"], rows)
    rates = [[str(m), f"{r:.6g}"] for m, r in zip(months[:-1], recharge(months), strict=True)]
    write_table(folder / "recharge.csv", ["month", "m_per_day"], rates)
    problem = PROBLEM.replace("start = 1988-01-01", f"start = {months[0]}")
    problem = problem.replace("max_edge = 110", f"max_edge = {edge}")
    (folder / "problem.toml").write_text(f'{problem}\n[engine]\nname = "{engine}"\n')
