# %% [markdown]
# # A hole in the clay: an aquifer of three layers, in space
#
# Sand lies on clay, clay on gravel. A well pumps from the gravel; rain falls on the sand. The clay
# should keep the two apart, but somewhere it has a hole, and what is spilt on the surface reaches
# the well through it. Sixty boreholes tell the head $h$ above and below the clay, to within two
# centimetres; none of them met the hole. The rest is told by
#
# $$-\nabla\cdot(K\nabla h) = -Q\,\delta_{\text{well}}.$$
#
# Where is the hole?

# %%
import jax

jax.config.update("jax_enable_x64", True)

import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import riesz as rz

SHAPE = (12, 12, 6)  # cells along each side

# %% [markdown]
# ## Layers are regions of a mesh in space
#
# A block of 300 x 300 x 60 m. Regions are tagged by conditions on the middles of the cells; the
# clay falls into nine blocks, each with a conductivity of its own.

# %%
SIDE, BLOCK = 300.0, 100.0
BLOCKS = [(i, j) for j in range(3) for i in range(3)]


def aquifer(shape):
    mesh = rz.mesh.box(shape, upper=(SIDE, SIDE, 60.0))
    mesh = rz.mesh.tag_region(mesh, "gravel", lambda x: x[:, 2] < 20)
    mesh = rz.mesh.tag_region(mesh, "sand", lambda x: x[:, 2] > 30)
    for i, j in BLOCKS:

        def inside(x, block=(i, j)):
            in_clay = (x[:, 2] > 20) & (x[:, 2] < 30)
            return in_clay & (x[:, :2] // BLOCK == block).all(axis=1)

        mesh = rz.mesh.tag_region(mesh, f"clay {i}{j}", inside)
    return mesh


mesh = aquifer(SHAPE)
print(f"{mesh.num_nodes} nodes, {mesh.num_cells} tetrahedra, {len(mesh.regions)} regions")

# %% [markdown]
# ## The truth, on another mesh
#
# With twice as many cells along each side, and three times as many upwards, lest the fit look
# better than it is. Conductivities in m/day; heads of 51 and 50 m in the west and the east drive
# the water, the well takes 5,000 m³ a day, and 2 mm of rain a day reach the sand. The hole is
# block 12.

# %%
WELL, PUMPED, RAIN = np.array([[150.0, 150.0, 10.0]]), 5000.0, 2e-3
HELD = {"left": 51.0, "right": 50.0}
HOLE = "clay 12"


def equation(conductivity):
    gains = rz.point_source(WELL, -PUMPED) + rz.neumann(RAIN, on="top")
    return rz.diffusion(conductivity) - gains


rng = np.random.default_rng(0)
clays = [f"clay {i}{j}" for i, j in BLOCKS]
true_conductivity = {name: 0.1 * np.exp(0.5 * rng.standard_normal()) for name in clays}
true_conductivity |= {HOLE: 1.0, "gravel": 40.0, "sand": 8.0}

fine = aquifer((2 * SHAPE[0], 2 * SHAPE[1], 3 * SHAPE[2]))
reality = equation(rz.by_region(fine, true_conductivity))
true_heads = rz.solve(
    rz.boundary_value_problem(rz.P1(fine), reality, HELD),
    linear_solver=rz.solvers.ConjugateGradients(),
)

places = rng.uniform(15, SIDE - 15, (300, 2))
met_hole = (places // BLOCK == (1, 2)).all(axis=1)
near_well = np.linalg.norm(places - WELL[0, :2], axis=1) < 60
places = places[~met_hole & ~near_well][:60]
screens = np.concatenate([np.insert(places, 2, depth, axis=1) for depth in (40.0, 10.0)])
noise_sd = 0.02
heads = np.asarray(rz.fem.point_operator(rz.P1(fine), screens) @ true_heads)
heads = heads + noise_sd * rng.standard_normal(len(heads))
print(f"heads from {heads.min():.2f} to {heads.max():.2f} m at {len(heads)} screens")

# %% [markdown]
# ## What is known beforehand
#
# Clay may be tight or sandy: its prior spans an order of magnitude either way with 98 %. Nothing
# says which block is special.

# %%
priors = dict.fromkeys(clays, dist.LogNormal(jnp.log(0.1), 1.0))
priors |= {
    "gravel": dist.LogNormal(jnp.log(30.0), 1.0),
    "sand": dist.LogNormal(jnp.log(10.0), 1.0),
}
problem = rz.inverse_problem(
    mesh,
    equation("K"),
    latents={"K": rz.Regions(priors)},
    dirichlet=HELD,
    observations=rz.observations(screens, heads),
    likelihood=rz.Gaussian(noise_sd),
)

# %% [markdown]
# ## The fit
#
# Through tight clay little passes, and how little is hard to tell: the posterior leans to one side,
# as no Gaussian does. It takes draws. Each costs a solve or ten, but heads under one set of
# conductivities are much like those under another: a reduced basis looks for them among
# combinations of a hundred states at most, and some draws are weighed by exact solves in the end.
# The tail of these weights, `k_hat`, says whether the result is to be trusted: it is where that is
# below 0.5.

# %%
chains = rz.MCMC(num_warmup=200, num_samples=600, num_searches=2)
basis = rz.ReducedBasis(num_snapshots=150, num_modes=100, num_exact=400)
posterior = rz.fit(problem, chains, density=basis, seed=0, progress=False)
k_hat = float(posterior.history["k_hat"])
print(f"k-hat {k_hat:.2f}; {'; '.join(map(str, posterior.notes)) or 'no doubts'}")
assert k_hat < 0.5

middles = np.array([[(i + 0.5) * BLOCK, (j + 0.5) * BLOCK, 25.0] for i, j in BLOCKS])
LEAKY = 0.5  # m/day
found = rz.predict(posterior, "K", middles, exceed=(LEAKY,))
chance = dict(zip(clays, found.exceedance[LEAKY], strict=True))
for name in sorted(clays, key=chance.get, reverse=True)[:4]:
    print(f"{name}: leaky with probability {chance[name]:.2f}, truly {true_conductivity[name]:.3f}")

# %% [markdown]
# ## Slices
#
# A state at the nodes, or a value for each cell, is drawn where a plane cuts the mesh. From above,
# the clay; from the south, heads along a section through the hole, with heights exaggerated. Where
# the clay holds, heads jump from sand to gravel; through the hole they pass smoothly.

# %%
state = rz.predict(posterior, "u", num_draws=40)
leaky = np.zeros(mesh.num_cells)
for name in clays:
    leaky[mesh.regions[name]] = chance[name]

figure, (above, section, spread) = rz.plot.new_figure(3)
rz.plot.draw_slice(above, mesh, leaky, z=25.0, label=f"probability of K > {LEAKY} m/day", vmin=0)
above.plot(*places.T, "o", color="white", markeredgecolor="black", markersize=4)
above.plot(*WELL[0, :2], "+", color="tab:red", markersize=12)
above.set_title("the clay from above")
rz.plot.draw_slice(section, mesh, state.mean, y=187.5, label="head in m")
section.set_aspect("auto")
section.set_title("mean head, y = 187.5 m")
rz.plot.draw_slice(spread, mesh, state.sd, y=187.5, label="sd in m", cmap="magma")
spread.set_aspect("auto")
spread.set_title("its sd")
figure

# %% [markdown]
# The whole of it, for ParaView:

# %%
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "layers.vtu"
    rz.io.write_mesh(path, mesh, {"head": state.mean, "sd": state.sd}, {"leaky": leaky})
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")

# %% [markdown]
# ## Was it found?
#
# The hole stands out by the difference between its probability and that of the block that comes
# next.

# %%
others = max(value for name, value in chance.items() if name != HOLE)
print(f"{HOLE}: {chance[HOLE]:.2f}; the next: {others:.2f}")
assert chance[HOLE] - others > 0.7
