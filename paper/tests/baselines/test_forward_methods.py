"""Losses without a mesh's norm: right densities, fair points, and minima at the solution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import riesz as rz
from riesz_paper.baselines.strong_form.forward import DeepRitz, FirstOrderSystem, StrongForm
from riesz_paper.baselines.strong_form.points import inside_points, interface_points

SQUARE = rz.rectangle((4, 4))
ONES = np.ones(SQUARE.num_cells)
LEFT_LOW = np.where(SQUARE.nodes[SQUARE.cells].mean(axis=1)[:, 0] < 0.5, 1.0, 4.0)
"""A diffusivity that jumps at x = 1/2."""


def layered(x):
    """Solves -(a u')' = 1 with u(0) = u(1) = 0: flux and state continuous at the jump."""
    constant = 0.35  # u(1) = 0: c/2 - 1/8 = (3/8 - c/2) / 4
    left = constant * x[0] - x[0] ** 2 / 2
    right = (constant * (x[0] - 1) - (x[0] ** 2 - 1) / 2) / 4
    return jnp.where(x[0] < 0.5, left, right)


class Layered(eqx.Module):
    """The layered solution, with its flux if asked for, plus a kink of flux and a bump.

    One class with numbers that vary: each loss is compiled once for all fields.
    """

    kink: float | jax.Array = 0.0
    bump: float | jax.Array = 0.0
    with_flux: bool = eqx.field(static=True, default=False)

    def __call__(self, x):
        kink = self.kink * jnp.maximum(x[0] - 0.5, 0.0) / 4
        state = layered(x) + kink + self.bump * jnp.sin(jnp.pi * x[0])
        flux = [0.35 - x[0], jnp.zeros(())] if self.with_flux else []
        return jnp.stack([state, *flux])


def strong_form(diffusivity, jump_weight):
    inside = inside_points(SQUARE, diffusivity)
    return StrongForm(inside, interface_points(SQUARE, diffusivity), 1.0, 512, 128, jump_weight)


def test_points_are_uniform_and_know_their_diffusivity():
    points = inside_points(SQUARE, LEFT_LOW)
    x, diffusivity = points.draw(jr.key(0), 4096)
    np.testing.assert_array_equal(diffusivity, np.where(x[:, 0] < 0.5, 1.0, 4.0))
    np.testing.assert_allclose(np.mean(x, axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(np.var(x, axis=0), 1 / 12, rtol=0.03)


def test_interfaces_are_where_the_diffusivity_jumps():
    x, normal, sides = interface_points(SQUARE, LEFT_LOW).draw(jr.key(0), 500)
    np.testing.assert_allclose(x[:, 0], 0.5)
    assert 0.4 < float(np.mean(x[:, 1])) < 0.6
    np.testing.assert_allclose(np.abs(normal[:, 0]), 1.0)
    # From the first side to the second: to the right where the first one is the low one.
    np.testing.assert_array_equal(np.where(normal[:, 0] > 0, 1.0, 4.0), sides[:, 0])


@eqx.filter_jit
def mean_of_draws(loss, field):
    return jnp.mean(jax.lax.map(lambda key: loss(key, field), jr.split(jr.key(1), 64)))


def mean_loss(loss, *, kink=0.0, bump=0.0, with_flux=False):
    return mean_of_draws(loss, Layered(jnp.asarray(kink), jnp.asarray(bump), with_flux))


def test_the_strong_form_vanishes_at_the_layered_solution_only_with_jumps_watched():
    blind, watching = strong_form(LEFT_LOW, 0.0), strong_form(LEFT_LOW, 3.0)
    assert mean_loss(blind) < 1e-20
    # One-sided slopes are taken a little off the interface.
    assert mean_loss(watching) < 1e-9
    # With a flux that jumps by one, the equation still holds on either side.
    assert mean_loss(blind, kink=1.0) < 1e-20
    assert mean_loss(watching, kink=1.0) == pytest.approx(3.0, rel=1e-4)


def test_the_first_order_system_vanishes_at_state_and_flux_together():
    loss = FirstOrderSystem(inside_points(SQUARE, LEFT_LOW), 1.0, 512, 2.0)
    assert mean_loss(loss, with_flux=True) < 1e-20
    # |a grad v|^2 / a for v = 0.1 sin(pi x): the mean diffusivity is 2.5.
    expected = 2.5 * (0.1 * np.pi) ** 2 / 2
    assert mean_loss(loss, bump=0.1, with_flux=True) == pytest.approx(expected, rel=0.01)


def test_the_ritz_energy_is_least_at_the_solution_and_grows_by_the_energy_of_the_error():
    loss = DeepRitz(inside_points(SQUARE, LEFT_LOW), 1.0, 2048)
    least = mean_loss(loss)
    # At the solution the energy is minus half the load's work.
    x = (np.arange(10_000) + 0.5) / 10_000
    values = jax.vmap(layered)(jnp.stack([jnp.asarray(x), jnp.zeros(10_000)], axis=1))
    assert least == pytest.approx(-float(jnp.mean(values)) / 2, rel=0.02)
    more = mean_loss(loss, bump=0.1) - least
    assert more == pytest.approx(2.5 * (0.1 * np.pi) ** 2 / 4, rel=0.02)


class Sines(eqx.Module):
    """Fields that are linear in a few weights, on the whole boundary zero; the flux is free."""

    weights: jax.Array  # sine of x, sine of y

    def __call__(self, x):
        numbers = jnp.arange(1.0, 6.0)
        waves = jnp.outer(jnp.sin(jnp.pi * numbers * x[0]), jnp.sin(jnp.pi * numbers * x[1]))
        return jnp.sum(self.weights * waves)[None]


@eqx.filter_jit
def derivatives(loss):
    """First and second, at zero weights."""

    def mean(weights):
        field = Sines(weights.reshape(5, 5))
        return jnp.mean(jax.vmap(lambda key: loss(key, field))(jr.split(jr.key(3), 16)))

    gradient, change = jax.linearize(jax.grad(mean), jnp.zeros(25))
    return gradient, jax.vmap(change)(jnp.eye(25))


@pytest.mark.parametrize("make", [lambda: strong_form(ONES, 0.0), lambda: ritz_of(ONES)])
def test_minima_over_smooth_fields_solve_poissons_equation(make):
    """-lap u = 1: coefficients 16 / (pi^4 i j (i^2 + j^2)) of odd sines."""
    gradient, matrix = derivatives(make())
    found = -np.linalg.solve(matrix, gradient).reshape(5, 5)
    i, j = np.meshgrid(np.arange(1, 6), np.arange(1, 6), indexing="ij")
    exact = np.where((i * j) % 2, 16 / (np.pi**4 * i * j * (i**2 + j**2)), 0.0)
    assert np.abs(found - exact).max() < 0.05 * exact.max(), found


def ritz_of(diffusivity):
    return DeepRitz(inside_points(SQUARE, diffusivity), 1.0, 512)


def test_a_diffusivity_that_does_not_fit_the_mesh_is_refused():
    with pytest.raises(rz.RieszError, match="one value a cell"):
        inside_points(SQUARE, np.ones(3))
