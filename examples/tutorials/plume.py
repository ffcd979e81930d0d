# %% [markdown]
# # When did it leak?
#
# A tank at a known place has leaked something into groundwater that flows to the right. Six wells
# were sampled now and then. We ask for the history of the leak, for how fast the plume spreads, and
# where it will be in a year, with their uncertainty:
#
# $$\partial_t u - D\,\Delta u + \tau\cdot\nabla u = q(t)\,\delta_{x_0}.$$

# %%
import jax

jax.config.update("jax_enable_x64", True)  # exact solves need float64

import numpy as np
import numpyro.distributions as dist

import riesz as rz

# %% [markdown]
# ## A problem in time
#
# `storage` makes the equation one in time. The history of the leak is a process: one unknown number
# every half year, joined by lines, which varies over about a year. Wells are read four times.

# %%
years = np.linspace(0, 4, 25)
knots = np.linspace(0, 4, 9)
leak = rz.point_source([[0.25, 0.5]], rz.series(knots, "q", kind="linear"))
equation = rz.storage(1.0) + rz.diffusion("D") + rz.advection([0.25, 0.0], supg=True) - leak
wells = np.array([[0.35, 0.5], [0.45, 0.4], [0.45, 0.6], [0.6, 0.5], [0.75, 0.45], [0.75, 0.6]])
points, when = np.tile(wells, (4, 1)), np.repeat([0.75, 1.5, 2.25, 3.0], len(wells))


def plume(values, noise_sd):
    return rz.inverse_problem(
        rz.rectangle((16, 16)),
        equation,
        latents={
            "D": dist.LogNormal(np.log(0.02), 0.7),
            "q": rz.priors.process_in_time(rz.Matern32(1.0), knots, mean=0.5),
        },
        dirichlet={"left": 0.0},
        observations=rz.observations(points, values, times=when),
        likelihood=rz.Gaussian(noise_sd),
        times=years,
        initial=0.0,
    )


# %% [markdown]
# The truth: a leak that began after half a year and was stopped in the third.

# %%
true_history = np.interp(knots, [0.0, 0.5, 1.0, 2.0, 2.5, 4.0], [0.0, 0.0, 1.5, 1.5, 0.0, 0.0])
empty = plume(np.zeros(len(points)), 1.0)
clean = np.asarray(empty.simulate({"D": 0.03, "q": true_history}))
noise_sd = 0.03 * clean.max()
problem = plume(clean + noise_sd * np.random.default_rng(1).normal(size=len(clean)), noise_sd)
print(problem)

# %% [markdown]
# ## What the samples say
#
# The plume is linear in the history of the leak, and not in the dispersion: the density `marginal`
# has the history integrated out, which leaves one number.

# %%
posterior = rz.fit(problem, "laplace", density="marginal", seed=0, progress=False)
low, high = posterior.quantiles("D", (0.025, 0.975))
print(f"dispersion {posterior.mean('D'):.3f}, 95 % within {low:.3f} .. {high:.3f}; truth 0.03")

history = np.asarray(posterior.values("q"))
for knot, own, true in zip(knots, history.T, true_history, strict=True):
    low, middle, high = np.quantile(own, (0.025, 0.5, 0.975))
    print(f"year {knot:3.1f}: {middle:5.2f}  ({low:5.2f} .. {high:5.2f})   truth {true:.2f}")

# %% [markdown]
# What leaked in the last year has hardly reached a well: its interval is that of the prior.
#
# ## Where will it be?
#
# The axis reaches a year beyond the last samples. A forecast marches each draw of the posterior on.

# %%
forecast = rz.predict(
    posterior, "u", wells, times=[3.0, 4.0], num_draws=100, quantiles=(0.025, 0.975)
)
for year, means, lows, highs in zip(
    (3, 4), forecast.mean, forecast.quantiles[0.025], forecast.quantiles[0.975], strict=True
):
    told = ", ".join(
        f"{m:.2f} ({a:.2f} .. {b:.2f})" for m, a, b in zip(means, lows, highs, strict=True)
    )
    print(f"year {year}: {told}")

assert abs(posterior.mean("D") - 0.03) < 3 * posterior.sd("D")
