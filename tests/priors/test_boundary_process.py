"""A boundary's Gaussian process about a trend, against the covariance written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import RieszError
from riesz.mesh.facets import boundary_node_mask
from riesz.mesh.shapes import rectangle
from riesz.priors.gaussian_process import BoundaryGP
from riesz.priors.kernels import Matern52

MESH = rectangle((4, 2), lower=(10.0, 20.0), upper=(14.0, 22.0))
RIM = MESH.nodes[boundary_node_mask(MESH)]


def test_with_all_of_the_boundary_the_covariance_is_kernel_plus_trend():
    kernel = Matern52(1.5, 0.7)
    latent = BoundaryGP(kernel, mean=3.0, trend_sd=2.0, inducing=100).on(MESH)
    assert latent.num_coordinates == len(RIM) + 3
    values = jax.vmap(
        lambda c: latent.field.nodal(latent.value(c))[boundary_node_mask(MESH)], out_axes=1
    )
    mean = values(jnp.zeros((1, latent.num_coordinates)))
    np.testing.assert_allclose(mean, 3.0)
    factor = np.asarray(values(jnp.eye(latent.num_coordinates)) - mean)
    trend = np.column_stack([np.ones(len(RIM)), (RIM - [12.0, 21.0]) / 2.0])
    expected = kernel.matrix(RIM, RIM) + 2.0**2 * trend @ trend.T
    np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-5)


def test_few_points_are_nodes_of_the_boundary_far_apart():
    latent = BoundaryGP(Matern52(1.5), inducing=4).on(MESH)
    chosen = np.asarray(latent.field.inducing)
    assert {tuple(x) for x in chosen} <= {tuple(x) for x in RIM}
    gaps = np.linalg.norm(chosen[:, None] - chosen, axis=2)[~np.eye(4, dtype=bool)]
    assert gaps.min() > 1.0
    assert "4 points of the boundary keep" in latent.describe()
    assert "linear trend with sd 1," in latent.describe()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BoundaryGP(Matern52(), inducing=0), "inducing is 0"),
        (lambda: BoundaryGP(Matern52(), trend_sd=-1.0), "trend_sd is -1.0: it must be positive"),
        (lambda: BoundaryGP(Matern52(), mean=np.nan), "the mean of a field is nan"),
    ],
)
def test_impossible_boundaries_are_refused(build, message):
    with pytest.raises(RieszError, match=message):
        build()
