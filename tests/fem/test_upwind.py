"""Transport that outruns diffusion: streamline upwinding at cell Péclet number 100."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem.assembly import free_residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.solve import solve
from riesz.fem.terms.weakform import advection, diffusion, source
from riesz.mesh.shapes import rectangle

PECLET = 100.0  # |velocity| h / 2a, h the side of a square of two cells
ALIGNED, OBLIQUE = (1.0, 0.0), (1.0, 0.5)


def smooth(x):
    return x[0] * x[0] * x[0] - x[0] * x[1] + x[1] * x[1]


def strength(x, z):
    """The source of the smooth solution; none for that with layers."""
    curvature = jnp.trace(jax.hessian(smooth)(x))
    along = z["velocity"] @ jax.grad(smooth)(x)
    return (along - z["diffusivity"] * curvature) * (1 - z["layer"])


def prescribed(x, z):
    """For the layer: one where the flow enters or passes along, zero where it leaves."""
    leaves = jnp.any((x > 1 - 1e-9) & (z["velocity"] > 0))
    return jnp.where(leaves, 0.0, 1.0) * z["layer"] + smooth(x) * (1 - z["layer"])


@lru_cache
def problem(num_cells, *, supg=True, crosswind=None):
    transport = advection("velocity", supg=supg, crosswind=crosswind)
    form = diffusion("diffusivity") + transport - source(strength)
    space = P1(rectangle((num_cells, num_cells)))
    return boundary_value_problem(space, form, {"boundary": prescribed})


def transported(num_cells, velocity, *, layer, supg=True, crosswind=None):
    """Nodes and the solution at them."""
    velocity = jnp.asarray(velocity)
    diffusivity = jnp.linalg.norm(velocity) / (2 * PECLET * num_cells)
    z = {"diffusivity": diffusivity, "velocity": velocity, "layer": jnp.asarray(float(layer))}
    bound = problem(num_cells, supg=supg, crosswind=crosswind)
    return bound.space.mesh.nodes, np.asarray(solve(bound, z))


def overshoot(nodes, u, velocity, num_cells):
    """How far u leaves [0, 1], anywhere and more than two cells away from the layers."""
    excess = np.maximum(u - 1, -u)
    into_layer = np.where(np.array(velocity) > 0, 1 - nodes, np.inf).min(axis=1)
    return excess.max(), excess[into_layer > 2.001 / num_cells].max()


@pytest.mark.slow
@pytest.mark.parametrize("velocity", [ALIGNED, OBLIQUE])
@pytest.mark.parametrize("crosswind", [None, 1.0])
def test_smooth_transport_converges_faster_than_order_one_and_a_half(velocity, crosswind):
    errors = []
    for num_cells in (16, 32):
        nodes, u = transported(num_cells, velocity, layer=False, crosswind=crosswind)
        exact = np.array([smooth(x) for x in nodes])
        errors.append(np.sqrt(np.mean((u - exact) ** 2)))
    order = np.log2(errors[0] / errors[1])
    assert order >= 1.5, f"observed order {order:.2f}"


@pytest.mark.slow
def test_a_layer_across_the_stream_overshoots_by_less_than_a_tenth():
    nodes, u = transported(32, ALIGNED, layer=True)
    anywhere, away = overshoot(nodes, u, ALIGNED, 32)
    assert anywhere <= 0.1
    assert away <= 1e-3


@pytest.mark.slow
def test_in_oblique_flow_overshoots_stay_at_the_layer():
    """What this linear method does there, short of the tenth it reaches in aligned flow."""
    nodes, u = transported(32, OBLIQUE, layer=True)
    anywhere, away = overshoot(nodes, u, OBLIQUE, 32)
    assert anywhere <= 0.4
    assert away <= 0.05
    _, without = overshoot(*transported(32, OBLIQUE, layer=True, supg=False), OBLIQUE, 32)
    assert without > 10 * away


def skew_inflow(x):
    """One along the bottom and on the left below 0.2; zero elsewhere, and where the flow leaves."""
    return jnp.where((x[1] < 1e-9) | ((x[0] < 1e-9) & (x[1] < 0.2 + 1e-9)), 1.0, 0.0)


def at_angle(x, z):
    return jnp.stack([jnp.cos(z["angle"]), jnp.sin(z["angle"])])


@lru_cache
def skew(num_cells, diffusivity, crosswind):
    form = diffusion(diffusivity) + advection(at_angle, supg=True, crosswind=crosswind)
    return boundary_value_problem(
        P1(rectangle((num_cells, num_cells))), form, {"boundary": skew_inflow}
    )


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [45.0, 67.5])
def test_crosswind_diffusion_keeps_skew_layers_within_their_bounds(degrees):
    """Where streamline upwinding alone overshoots by 20 and 42 %, whatever the mesh."""
    z = {"angle": jnp.deg2rad(degrees)}
    u, without = (solve(skew(32, 1e-6, jump), z) for jump in (1.0, None))
    assert max(u.max() - 1, -u.min()) < 0.02
    assert without.max() > 1.15


def test_crosswind_diffusion_has_no_scale_of_its_own():
    """In other units, with the jump in them, the residual is the same, and not a linear one."""
    z, state = {"angle": jnp.asarray(1.0)}, np.random.default_rng(0).uniform(size=25)
    one, other = (skew(4, 1e-6, jump) for jump in (1.0, 100.0))
    residual = free_residual(one, jnp.asarray(state), z)
    scaled = free_residual(other, jnp.asarray(100 * state), z)
    np.testing.assert_allclose(scaled, 100 * residual, rtol=1e-9, atol=1e-12)
    assert not np.allclose(free_residual(one, jnp.asarray(100 * state), z), 100 * residual)


@pytest.mark.slow
def test_the_gradient_through_crosswind_diffusion_is_that_of_differences():
    bound, step = skew(8, 1e-3, 1.0), 1e-5

    def total(angle):
        return jnp.sum(solve(bound, {"angle": angle}) ** 2)

    angle = jnp.asarray(1.0)
    slope = jax.grad(total)(angle)
    differences = (total(angle + step) - total(angle - step)) / (2 * step)
    np.testing.assert_allclose(slope, differences, rtol=1e-5)
