# %% [markdown]
# # The penalty in your own network
#
# You have a network of your own, and an equation that it should obey. Here a small one, written by
# hand, learns the solutions of
#
# $$-\Delta u + \tau\cdot\nabla u = 1, \qquad u = 0 \text{ on the boundary,}$$
#
# for all winds $\tau$ within $[-3, 3]^2$ at once, from no data at all: the loss is the weak-form
# penalty alone. [The guide](../plug-in.md) explains the choices; a version with Flax and data is
# `examples/plug_in_flax.py`.

# %%
import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

import riesz as rz

# %% [markdown]
# ## Any JAX function will do
#
# Features of the place times features of the wind, and a factor that vanishes on the boundary, so
# that boundary values are right whatever the weights are.

# %%
WIDTHS = {"trunk": (2, 32, 32, 24), "branch": (2, 32, 24)}


def fresh(key):
    """Weights and biases of both networks."""

    def layers(key, widths):
        keys = jr.split(key, len(widths) - 1)
        pairs = zip(keys, widths[:-1], widths[1:], strict=True)
        return [(jr.normal(k, (m, n)) / jnp.sqrt(m), jnp.zeros(n)) for k, m, n in pairs]

    keys = jr.split(key, len(WIDTHS))
    return {name: layers(k, WIDTHS[name]) for k, name in zip(keys, WIDTHS, strict=True)}


def network(layers, values):
    *hidden, (last, shift) = layers
    for weights, bias in hidden:
        values = jnp.tanh(values @ weights + bias)
    return values @ last + shift


def state(params, x, tau):
    bubble = x[0] * (1 - x[0]) * x[1] * (1 - x[1])
    return bubble * jnp.dot(network(params["trunk"], x), network(params["branch"], tau / 3))


# %% [markdown]
# ## Four lines of physics
#
# A hierarchy of meshes, the equation, a problem, its penalty. The finest mesh has 17 x 17 nodes
# here; a step would cost the same with a million.

# %%
meshes = rz.hierarchy(rz.rectangle((4, 4)), 3)
equation = rz.diffusion(1.0) + rz.advection("tau") - rz.source(1.0)
problem = rz.boundary_value_problem(rz.P1(meshes.meshes[-1]), equation, {"boundary": 0.0})
penalty = rz.weak_form_penalty(problem, meshes)

# %% [markdown]
# ## Training as ever
#
# `penalty(key, u, zs)` draws a few mini-patches with the key and measures `u(x, z)` on them, for
# all samples `zs` of the unknowns. Your own misfit would be added to it. The penalty is an
# *argument* of the compiled function: its arrays are inputs then, not constants of the program.

# %%
NUM_STEPS = 2000


def loss(params, key, penalty):
    patches, winds = jr.split(key)
    zs = {"tau": jr.uniform(winds, (16, 2), minval=-3.0, maxval=3.0)}
    return penalty(patches, lambda x, z: state(params, x, z["tau"]), zs)


optimiser = optax.adam(optax.cosine_decay_schedule(5e-3, NUM_STEPS))


@eqx.filter_jit
def train(params, keys, penalty):
    def step(carry, key):
        params, moments = carry
        value, slope = jax.value_and_grad(loss)(params, key, penalty)
        updates, moments = optimiser.update(slope, moments)
        return (optax.apply_updates(params, updates), moments), value

    (params, _), losses = jax.lax.scan(step, (params, optimiser.init(params)), keys)
    return params, losses


params, losses = train(fresh(jr.key(0)), jr.split(jr.key(1), NUM_STEPS), penalty)
print(f"loss: {losses[:50].mean():.2e} at first, {losses[-50:].mean():.2e} at last")

# %% [markdown]
# ## Held against exact solves
#
# At four winds that it has not met, the error in the energy norm, relative to the solution. This
# norm is what the penalty estimates, for this equation up to a constant.

# %%
gram = rz.penalty.dual_norm(problem).gram
nodes = jnp.asarray(problem.space.points)
fresh_winds = jr.uniform(jr.key(2), (4, 2), minval=-3.0, maxval=3.0)
squares = []
for tau in fresh_winds:
    exact = rz.solve(problem, {"tau": tau})
    found = jax.vmap(lambda x, tau=tau: state(params, x, tau))(nodes)
    squares.append([e @ (gram @ e) for e in ((found - exact)[problem.free], exact[problem.free])])
error, size = np.sqrt(np.mean(squares, axis=0))
print(f"relative energy error at fresh winds: {error / size:.4f}")

# %%
figure, (left, middle, right) = rz.plot.new_figure(3, width=3.6)
mesh = meshes.meshes[-1]
left.semilogy(np.asarray(losses).reshape(-1, 20).mean(axis=1))
left.set(xlabel="steps / 20", title="the penalty")
rz.plot.draw_field(middle, mesh, np.asarray(found), label="network at the last wind")
rz.plot.draw_field(right, mesh, np.asarray(found - exact), label="minus the exact state")
figure

# %% [markdown]
# The network carries all winds at once within a few per cent; more steps make it better
# (`examples/plug_in.py` takes 4,000 on 33 x 33 nodes).

# %%
assert error / size < 0.05
