# %% [markdown]
# # An aquifer through fifty years
#
# Nine wells of a plain were read once a year from 1950 to 1979, not all of them every year.
# Recharge changed over the years, and a well field was pumped from 1965 on. What was the recharge,
# where will heads be in 1999, and what if the pumps had been stopped in 1980?
#
# $$S\,\partial_t h - T\,\Delta h = r(t) - \sum_i Q_i(t)\,\delta_{x_i}.$$
#
# Lengths are in km, times in years and heads in metres. The page
# [the plain in time](../paper/docs/aquifer-time.md) asks the first two questions of readings in the
# field.

# %%
import jax

jax.config.update("jax_enable_x64", True)  # exact solves need float64

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import riesz as rz

# %% [markdown]
# ## Dated readings
#
# The axis goes on to 2000, twenty years beyond the last reading. Recharge is an unknown process
# with a knot every five years. A river in the west holds the head at 100 m, and the plain begins
# with the steady state of its first stresses, as is usual in groundwater. Readings of one well
# share an error, that of its surveyed level: ten readings of one well are worth less than those of
# ten.

# %%
STOP = 2001.0  # when the pumps stop, as they are now: never
axis, knots = np.arange(1950.0, 2001.0), np.arange(1950.0, 2001.0, 5.0)
pumps = np.array([[14.0, 12.0], [17.0, 14.0]])
rng = np.random.default_rng(3)
wells = rng.uniform([3.0, 3.0], [37.0, 23.0], (9, 2))
every, years = np.meshgrid(np.arange(9), np.arange(1951.0, 1980.0))
is_read = rng.random(every.shape) < 0.7
well, year = every[is_read], years[is_read]


def plain(heads, *, stop=STOP):
    rates = rz.series([1950.0, 1965.0, stop], [[0.0, 0.0], [-8.0, -5.0], [0.0, 0.0]])
    return rz.inverse_problem(
        rz.rectangle((16, 10), upper=(40.0, 25.0)),
        rz.storage("S")
        + rz.diffusion("T")
        - rz.source(rz.series(knots, "r", kind="linear"))
        - rz.point_source(pumps, rates),
        latents={
            "S": dist.LogNormal(np.log(0.1), 0.5),
            "T": dist.LogNormal(np.log(10.0), 0.7),
            "r": rz.priors.process_in_time(rz.Matern32(10.0, 0.05), knots, mean=0.1),
        },
        dirichlet={"left": 100.0},
        observations=rz.observations(wells[well], heads, times=year),
        likelihood=rz.observe.GroupedNormal(0.05, well, level_sd=0.3),
        times=axis,
        initial=rz.fem.SteadyState(),
    )


# %% [markdown]
# The truth: less and less recharge after 1970, and levels of wells that are off by some decimetres.

# %%
true_recharge = np.interp(
    knots, [1950.0, 1960.0, 1970.0, 1985.0, 2000.0], [0.1, 0.16, 0.15, 0.05, 0.08]
)
truth = {"S": jnp.asarray(0.07), "T": jnp.asarray(15.0), "r": jnp.asarray(true_recharge)}
empty = plain(np.zeros(len(well)))
clean = np.asarray(empty.operator @ empty.time.solve_or_raise(empty.forward, truth, None))
levels = 0.3 * rng.normal(size=9)
problem = plain(clean + levels[well] + 0.05 * rng.normal(size=len(clean)))
print(problem)

# %% [markdown]
# ## What readings say
#
# Heads are linear in the recharge, which `auto` sees: it is integrated out exactly, which leaves
# storage and transmissivity.

# %%
posterior = rz.fit(problem, seed=0, progress=False)
for name in ("S", "T"):
    low, high = posterior.quantiles(name, (0.025, 0.975))
    told = f"{posterior.mean(name):.3f}, 95 % within {low:.3f} .. {high:.3f}"
    print(f"{name} {told}; truth {float(truth[name])}")

recharge = np.asarray(posterior.values("r"))
for knot, own, true in zip(knots, recharge.T, true_recharge, strict=True):
    low, middle, high = np.quantile(own, (0.025, 0.5, 0.975))
    print(f"{knot:.0f}: {middle:.3f}  ({low:.3f} .. {high:.3f})   truth {true:.3f}")

# %% [markdown]
# Up to 1980 intervals are narrow; after that they widen to those of the prior, since nothing is
# known of recharge in years to come.
#
# ## Forecast and scenario
#
# Each draw of the posterior is marched on. The scenario is the same problem with other rates.

# %%
shown = np.arange(1950.0, 2000.0)
nearest = int(np.argmin(np.linalg.norm(wells - pumps[0], axis=1)))
place = wells[nearest : nearest + 1]
asked = {"times": shown, "num_draws": 100, "quantiles": (0.025, 0.975)}
going_on = rz.predict(posterior, "u", place, **asked)
stopped = rz.predict(posterior, "u", place, under=plain(clean, stop=1980.0), **asked)

figure, axes = plt.subplots(figsize=(7, 3.5))
for forecast, colour, label in (
    (going_on, "C0", "pumps go on"),
    (stopped, "C1", "stopped in 1980"),
):
    low, high = (np.asarray(forecast.quantiles[level])[:, 0] for level in (0.025, 0.975))
    axes.fill_between(shown, low, high, color=colour, alpha=0.3)
    axes.plot(shown, np.asarray(forecast.mean)[:, 0], color=colour, label=label)
own = well == nearest
axes.plot(year[own], np.asarray(problem.observations.values)[own], "k.", label="read")
axes.set(xlabel="year", ylabel="head [m]", title="The well nearest to the pumps")
axes.legend()
figure

# %%
record = empty.time.transient(empty.forward)
future = rz.solve(record, truth)[-2]
true_head = float((rz.fem.point_operator(empty.forward.space, place) @ future)[0])
mean, sd = float(going_on.mean[-1, 0]), float(going_on.sd[-1, 0])
gain = float(stopped.mean[-1, 0] - going_on.mean[-1, 0])
print(f"1999: {mean:.2f} m, sd {sd:.2f}; truth {true_head:.2f}. Without pumps {gain:.2f} m more.")
assert abs(mean - true_head) < 3 * sd
assert gain > 0
