"""One value a region, wherever the field is asked."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from riesz.errors import MeshError, RieszError
from riesz.fem.assembly import residual
from riesz.fem.elements.space import P1
from riesz.fem.problem import boundary_value_problem
from riesz.fem.terms.coefficient import per_cell
from riesz.fem.terms.weakform import diffusion, neumann
from riesz.mesh.mesh import Mesh
from riesz.mesh.shapes import rectangle
from riesz.mesh.tags import tag_region
from riesz.priors.fields import FieldWeights
from riesz.priors.latent import latent_space
from riesz.priors.regions import Regions

WEST = [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
EAST = [[0.5, 0], [1, 0], [1, 1], [0.5, 1]]
PLAIN = rectangle((4, 4))
HALF = tag_region(PLAIN, "west", WEST)
BOTH = tag_region(HALF, "east", EAST)
PRIOR = dist.LogNormal(0.0, 1.0)


def cell_values(mesh: Mesh, **values):
    result = np.zeros(mesh.num_cells)
    for name, value in values.items():
        result[mesh.regions[name]] = value
    return result


def test_the_field_in_an_equation_is_one_value_a_cell(normals):
    latent = Regions(PRIOR).on(BOTH)
    weights = latent.value(jnp.array([0.3, -1.0]))
    values = per_cell(cell_values(BOTH, west=np.exp(0.3), east=np.exp(-1.0)))
    state = normals(0, BOTH.num_nodes)
    field = latent.coefficient("a")
    form = diffusion(field) + neumann(field, on="right")
    form = form - diffusion(values) - neumann(values, on="right")
    difference = residual(
        boundary_value_problem(P1(BOTH), form), state, {"a": FieldWeights(weights)}
    )
    np.testing.assert_allclose(difference, 0.0, atol=1e-13)


def test_nodes_between_regions_have_the_mean_of_the_cells_around():
    values = Regions(PRIOR).on(BOTH).field.nodal(jnp.array([1.0, 3.0]))
    x = BOTH.nodes[:, 0]
    np.testing.assert_allclose(values[x < 0.5], 1.0)
    np.testing.assert_allclose(values[x > 0.5], 3.0)
    np.testing.assert_allclose(values[(x == 0.5) & (BOTH.nodes[:, 1] == 0.5)], 2.0)


def test_each_region_has_its_own_prior_and_name():
    space = latent_space(
        {"a": Regions({"east": dist.Uniform(2.0, 4.0)}, rest=dist.Normal(7.0, 1.0))}, BOTH
    )
    np.testing.assert_allclose(space.z(jnp.zeros(2))["a"].weights, [3.0, 7.0])
    assert space.coordinate_names() == ("a[east]", "a[rest]")
    assert "east: Uniform, 95 % within 2.05 .. 3.95" in space.latents["a"].describe()


def test_a_prior_for_the_rest_is_not_used_where_nothing_is_left():
    assert Regions(PRIOR, rest=PRIOR).on(BOTH).num_coordinates == 2


OVERLAP = tag_region(BOTH, "middle", [[0.2, 0], [0.8, 0], [0.8, 1], [0.2, 1]])


@pytest.mark.parametrize(
    ("prior", "mesh", "message"),
    [
        (Regions(PRIOR), PLAIN, "the mesh has no regions: tag some by tag_region"),
        (Regions(PRIOR), HALF, "16 of 32 cells are in none of the regions 'west', first cell 4 ab"),
        (Regions(PRIOR), OVERLAP, "cells are in both regions 'west' and 'middle'"),
        (Regions({"wset": PRIOR}), HALF, "did you mean 'west'"),
        (Regions(dist.Normal(jnp.zeros(2), 1.0)), BOTH, r"region 'west' has shape \(2,\)"),
        (Regions({"west": 3.0}, rest=PRIOR), BOTH, "prior of region 'west' is a float"),
    ],
)
def test_bad_regions_are_refused(prior, mesh, message):
    with pytest.raises((RieszError, MeshError), match=message):
        prior.on(mesh)
