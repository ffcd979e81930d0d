# %% [markdown]
# # An aquifer, by a problem file
#
# A *problem file* says what was measured, where, and which physics is trusted; the `riesz` command
# does the rest, and so do a few functions of Python, which we call here. Each line names its
# command. The truth is known: heads in 80 wells of a made-up aquifer, whose transmissivity varies
# over a factor of ten.
#
# Start in the folder of the repository, where `examples/aquifer` is.

# %%
import sys
import tempfile
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

import riesz as rz

FOLDER = Path("examples/aquifer")
OUT = Path(tempfile.mkdtemp())

print((FOLDER / "problem.toml").read_text())

# %% [markdown]
# ## What was understood
#
# `riesz check examples/aquifer/problem.toml` reads everything and tells in plain words what it
# found, before any long work.

# %%
case = rz.read_problem(FOLDER / "problem.toml")
print(case.check())

# %% [markdown]
# ## The fit
#
# Two things are unknown: the transmissivity, a positive field with eight principal functions, and
# the head on the rim. Given the transmissivity, the head is *linear* in the values on the rim, and
# their prior is normal: on the density `marginal`, which has them integrated out exactly, the
# method `laplace` is left with the eight numbers of the transmissivity. The file names both;
# [which when](../engines.md).
#
# `riesz fit examples/aquifer/problem.toml --seed 0 --out out/run` keeps the fit in a folder, which
# `rz.read_run` reads again at any time.

# %%
run = case.fit(OUT / "run", seed=0, progress=False)
print(run.summary)

# %% [markdown]
# ## Maps
#
# Any quantity, any statistic, at points or on a grid: `riesz predict out/run --quantity u --stat sd
# --grid 80x60 --out u_sd.csv`. With the extra `gis`, `--cell 1500 --out head.tif` makes a GeoTIFF;
# a CSV needs nothing. `riesz report out/run` makes one page of all of it (`run.report()`).

# %%
labels = {"u_sd": "sd of the head, m", "transmissivity_mean": "mean transmissivity, m2/day"}
for name in labels:
    quantity, stat = name.split("_")
    told = run.predict(quantity=quantity, stat=stat, grid=(80, 60)).save(OUT / f"{name}.csv")
    low, high = told["ranges"][name]
    print(f"{name}: {low:.6g} .. {high:.6g} at {told['places']} places")

# %%
figure, panels = rz.plot.new_figure(2, width=4.6, height=3.8)
for panel, (name, label) in zip(panels, labels.items(), strict=True):
    table = rz.io.read_table(OUT / f"{name}.csv")
    x, y, value = (table.numbers(column) for column in table.header)
    dots = panel.scatter(x / 1e3, y / 1e3, c=value, s=6, marker="s")
    figure.colorbar(dots, ax=panel, label=label, location="bottom", shrink=0.8)
    panel.set_aspect("equal")
panels[0].plot(*(case.prepared.points.T / 1e3), ".", color="white", markersize=3)
figure

# %% [markdown]
# ## The truth
#
# `examples/aquifer/score.py` knows it. Two numbers matter: how far off the heads are, and how often
# the 95 % intervals hold the truth. Honest intervals hold it at about 95 % of places.

# %%
sys.path.insert(0, str(FOLDER))

from score import score

found = score(OUT / "run")
for name, value in found.items():
    print(f"{name}: {value:.3g}")

# %%
assert 0.9 <= found["head_coverage"] <= 1.0
