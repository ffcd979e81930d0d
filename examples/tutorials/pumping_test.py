# %% [markdown]
# # How much water does it give?
#
# A well was pumped for a day, and two wells nearby were read. How conductive is the aquifer, how
# much water does it store, and does more come through the clay above it? The fall of head $s$ in an
# aquifer of thickness $H$ depends on the radius alone:
#
# $$S_s H\,\partial_t s - \frac 1 r\,\partial_r (r\,k H\,\partial_r s) + \frac s c = 0.$$
#
# `riesz pumptest readings.csv --rate 500 --thickness 20 --model leaky` does all of this from a
# table; here it is done by hand. Metres and days.

# %%
import jax

jax.config.update("jax_enable_x64", True)  # exact solves need float64

import matplotlib.pyplot as plt
import numpy as np

from riesz_pumping import Pumped, Readings, closest, draw_fit, fit_test, missing_physics, superpose

# %% [markdown]
# ## Readings
#
# They are made from the closed form of Hantush and Jacob (1955), with errors of 5 mm.

# %%
truth = {"k": 25.0, "Ss": 2e-5, "c": 60.0}
leaky = Pumped(rates=((0.0, 500.0),), thickness=20.0, leaky=True)
minutes = np.geomspace(1.0, 1440.0, 25)
time, radius = np.tile(minutes / 1440, 2), np.repeat([20.0, 60.0], 25)
noise = 0.005 * np.random.default_rng(1).normal(size=50)
level = superpose(leaky, radius, time, truth) + noise
seen = Readings(("near", "far"), np.repeat([0, 1], 25), radius, time, level)

# %% [markdown]
# ## A model that lacks something
#
# Without leakage there is Theis' closed form. Its best fit leaves something over: what the model
# lacks has a sign, early or late, and a fixed rule names it.

# %%
confined = Pumped(rates=((0.0, 500.0),), thickness=20.0)
values = closest(confined, seen)
rest = seen.level - superpose(confined, radius, time, values)
print(f"confined: k {values['k']:.1f} m/d, Ss {values['Ss']:.2g} 1/m, truth 25 and 2e-05")
for told in missing_physics(confined, seen, rest):
    print(f"- {told}")

# %% [markdown]
# ## With leakage
#
# The equation is solved on 240 cells that grow with the radius, in steps that grow with time; the
# posterior is the Gaussian about its mode in the logarithms of all unknowns (`laplace`). The size
# of errors is found, too.

# %%
found = fit_test(leaky, seen, noise="independent")
for name in leaky.parameters:
    low, middle, high = np.quantile(found.draws[name], (0.025, 0.5, 0.975))
    print(f"{name:2s} {middle:9.3g}   ({low:.3g} .. {high:.3g})   truth {truth[name]:g}")
print("lacks:", missing_physics(leaky, seen, found.residual) or "nothing that residuals tell of")

# %%
figure, (above, below) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
draw_fit(above, below, seen, found.predicted, found.band)
above.set_ylabel("drawdown, m")
below.set_ylabel("reading - model, m")
plt.show()

# %% [markdown]
# The conductivity is known to a few per cent, the leakage less well: it shows in late readings
# only. [Four pumping tests](../paper/docs/pumping-tests.md) ask the same of readings in the field.

# %%
off = np.log(found.draws["k"].mean() / truth["k"]) / np.std(np.log(found.draws["k"]))
assert abs(off) < 3, f"conductivity {off:.2f} standard deviations off"
