"""Sums over cells do not depend on how the cells are cut into chunks and slots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem import accumulate
from riesz.fem.accumulate import accumulation
from riesz.fem.assembly import residual
from riesz.fem.elements.space import P1, P2
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import nodal, per_cell
from riesz.fem.terms.weakform import diffusion, source
from riesz.mesh.shapes import box, interval, rectangle


def fan(num_cells):
    """Cells that all share the unknown 0."""
    outer = np.arange(1, num_cells + 1)
    return np.stack([0 * outer, outer, outer % num_cells + 1])


def strip(num_cells):
    """A band of triangles, numbered along it."""
    return np.arange(num_cells) + np.arange(3)[:, None]


NUMBERINGS = {
    "interval": interval(50).cells.T,
    "rectangle": rectangle((9, 7)).cells.T,
    "quadratic": P2(rectangle((5, 4))).cell_dofs.T,
    "box": box((3, 3, 3)).cells.T,
    "strip": strip(100),
    "fan": fan(97),
    "random": np.random.default_rng(0).permutation(100)[rectangle((9, 9)).cells.T],
    "one cell": np.array([[0], [1], [2]]),
}


def accumulated(tables, contributions):
    """What the tables make of given contributions [local, cell]."""

    def local_residuals(start, count):
        return [jax.lax.dynamic_slice_in_dim(row, start, count) for row in contributions]

    return jax.jit(lambda: tables(local_residuals))()


@pytest.mark.parametrize("name", list(NUMBERINGS))
@pytest.mark.parametrize("chunk_cells", [16, 1 << 17])
def test_every_numbering_gets_the_sum_of_its_contributions(name, chunk_cells, monkeypatch):
    monkeypatch.setattr(accumulate, "CHUNK_CELLS", chunk_cells)
    dofs = NUMBERINGS[name]
    num_dofs = int(dofs.max()) + 1
    contributions = np.random.default_rng(1).normal(size=dofs.shape)
    expected = np.zeros(num_dofs)
    np.add.at(expected, dofs, contributions)
    found = accumulated(accumulation(dofs, num_dofs), jnp.asarray(contributions))
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_chunks_cover_a_local_numbering_and_a_random_one_stays_whole(monkeypatch):
    monkeypatch.setattr(accumulate, "CHUNK_CELLS", 16)
    assert len(accumulation(strip(100), 102).starts) == 7
    assert len(accumulation(NUMBERINGS["random"], 100).starts) == 1


def test_only_an_unknown_of_unusually_many_cells_spills():
    whole = accumulation(fan(400), 401)
    assert whole.slots.shape[1] < 400
    assert whole.spilled.shape[1] > 0
    assert accumulation(strip(400), 402).spilled.shape[1] <= 0.02 * 1200


@pytest.mark.parametrize("space", [P1(rectangle((8, 8))), P2(rectangle((8, 8)))], ids=["P1", "P2"])
def test_the_residual_does_not_depend_on_chunks(space, monkeypatch):
    rng = np.random.default_rng(2)
    form = diffusion(per_cell(rng.uniform(1, 2, 128))) - source(nodal(rng.normal(size=81)))
    state = jnp.asarray(rng.normal(size=space.num_dofs))
    whole = boundary_value_problem(space, form)
    monkeypatch.setattr(accumulate, "CHUNK_CELLS", 40)
    # Locality of mid-edge unknowns is too weak for chunks; the sum must not mind.
    chunked = boundary_value_problem(space, form)
    assert len(chunked.accumulation.starts) == (4 if space.element.degree == 1 else 1)
    expected = residual(whole, state)
    np.testing.assert_allclose(residual(chunked, state), expected, atol=1e-12)
