# %% [markdown]
# # An aquifer, by a problem file
#
# No Python is needed for this one. A *problem file* says what was measured, where, and which
# physics is trusted; the `riesz` command does the rest. We run the commands from Python only to
# keep this page honest, and to hold the result against the truth, which is known here: heads in 80
# wells of a made-up aquifer, whose transmissivity varies over a factor of ten.
#
# Start in the folder of the repository, where `examples/aquifer` is.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path("examples/aquifer")
RUN = Path(tempfile.mkdtemp()) / "run"


def riesz(*words):
    """Run a command as a shell would, and show what it says."""
    print("$ riesz", *(str(word).replace(str(RUN.parent), "out") for word in words))
    command = [sys.executable, "-c", "from riesz.cli.main import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout.replace(str(RUN.parent), "out"))


print((FOLDER / "problem.toml").read_text())

# %% [markdown]
# ## What was understood
#
# `riesz check` reads everything and tells in plain words what it found, before any long work.

# %%
riesz("check", FOLDER / "problem.toml")

# %% [markdown]
# ## The fit
#
# Two things are unknown: the transmissivity, a positive field with eight principal functions, and
# the head on the rim. Given the transmissivity, the head is *linear* in the values on the rim, and
# their prior is normal: the engine `conditional` integrates them out exactly and searches only for
# the eight numbers of the transmissivity. The file names it; [which engine
# when](../engines.md).

# %%
riesz("fit", FOLDER / "problem.toml", "--seed", 0, "--out", RUN)

# %% [markdown]
# ## Maps
#
# Any quantity, any statistic, at points or on a grid. With the extra `gis`, `--cell 1500 --out
# head.tif` makes a GeoTIFF; a CSV needs nothing.

# %%
for quantity, stat in (("u", "sd"), ("transmissivity", "mean")):
    name = RUN.parent / f"{quantity}_{stat}.csv"
    riesz("predict", RUN, "--quantity", quantity, "--stat", stat, "--grid", "80x60", "--out", name)

# %%
import numpy as np

import riesz as rz


def column(name):
    return np.genfromtxt(RUN.parent / name, delimiter=",", names=True)


figure, panels = rz.plot.new_figure(2, width=4.6, height=3.8)
labels = {"u_sd": "sd of the head, m", "transmissivity_mean": "mean transmissivity, m2/day"}
for panel, (name, label) in zip(panels, labels.items(), strict=True):
    table = column(f"{name}.csv")
    x, y, value = (table[field] for field in table.dtype.names[:3])
    dots = panel.scatter(x / 1e3, y / 1e3, c=value, s=6, marker="s")
    figure.colorbar(dots, ax=panel, label=label, location="bottom", shrink=0.8)
    panel.set_aspect("equal")
wells = np.genfromtxt(FOLDER / "wells.csv", delimiter=",", names=True, dtype=None, encoding=None)
panels[0].plot(wells["x_m"] / 1e3, wells["y_m"] / 1e3, ".", color="white", markersize=3)
figure

# %% [markdown]
# ## The truth
#
# `examples/aquifer/score.py` knows it. Two numbers matter: how far off the heads are, and how often
# the 95 % intervals hold the truth. Honest intervals hold it at about 95 % of places.

# %%
sys.path.insert(0, str(FOLDER))

import jax

jax.config.update("jax_enable_x64", True)

from score import score

found = score(RUN)
for name, value in found.items():
    print(f"{name}: {value:.3g}")

# %%
assert 0.9 <= found["head_coverage"] <= 1.0
