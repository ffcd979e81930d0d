"""What only shows on meshes that are worked off in several chunks."""

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.fem import accumulate
from riesz.fem.assembly import residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.weakform import advection, diffusion, source
from riesz.mesh.shapes import rectangle


@pytest.mark.slow
def test_a_large_mesh_in_chunks_has_the_residual_of_one_pass(monkeypatch):
    space = P1(rectangle((500, 500)))
    form = diffusion(1.0) + advection([1.0, 2.0]) - source(1.0)
    state = jnp.asarray(np.random.default_rng(0).standard_normal(space.num_dofs))
    in_chunks = boundary_value_problem(space, form)
    assert len(in_chunks.accumulation.starts) > 1
    monkeypatch.setattr(accumulate, "CHUNK_CELLS", 10**9)
    in_one_pass = boundary_value_problem(space, form)
    assert len(in_one_pass.accumulation.starts) == 1
    np.testing.assert_allclose(
        residual(in_chunks, state), residual(in_one_pass, state), rtol=1e-12, atol=1e-12
    )
