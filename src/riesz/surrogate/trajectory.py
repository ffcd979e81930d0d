r"""A surrogate of all states of an equation in time: functions of place, and a readout a step.

$u_n = g_n(x, z) + \sum_i \varphi_i(x)\,c_{n,i}(z)$: the lifting $g_n$ extends the values that are
prescribed at the time, and the mixture $c_n$ is linear in functions of the unknowns, with a readout
of its own for each step: nothing is supposed about how states change in time. The functions of
place are those of a steady surrogate, and what a source at a point does: in time it spreads slowly,
and smooth functions do not make what is left at the point. The first state is its own, where one is
given.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse.linalg as spla
from jaxtyping import Array, Float, Int, PyTree

from riesz.arrays import on_device
from riesz.fem.assembly import jacobian
from riesz.fem.problem import BoundaryValueProblem, wells_at_known_points, with_form
from riesz.fem.terms.weakform import diffusion, reaction
from riesz.penalty.in_time import STEP
from riesz.penalty.rows import AbstractPlacedState, Place
from riesz.priors.latent import LatentSpace
from riesz.surrogate.networks import TrunkBranch
from riesz.surrogate.surrogate import (
    COORDINATES,
    Coordinates,
    Frame,
    NodalFunctions,
    Scalar,
    affine_in_coordinates,
    factor_and_lifting,
    nodal_functions,
)

BEGUN = "riesz:begun"
"""The entry of `z` that holds the first state at the nodes, where it is given."""

MOST_WELLS = 16
"""Points for which functions are made."""

RANK_TOLERANCE = 1e-10
"""Of prescribed values at all times, below which they are combinations of others."""


class Trajectory(AbstractPlacedState):
    """A state for every step and every value of the unknowns."""

    network: TrunkBranch  # its functions; the readouts below stand in place of its own
    functions: NodalFunctions  # boundary factor, responses to wells, liftings
    frame: Frame
    lifting: Float[Array, "time column coordinate_plus_one"]
    readouts: Float[Array, "time hidden feature"]
    num_responses: int = eqx.field(static=True)
    begins: bool = eqx.field(static=True)  # with a state that is given

    @property
    def num_features(self) -> int:
        return self.network.readout.shape[1] + self.num_responses

    def at(self, place: Place, z: PyTree) -> Scalar:
        mixture = self.network.hidden(z[COORDINATES]) @ self.readouts[z[STEP]]
        return self.mix(place, z, mixture)

    def mix(self, place: Place, z: PyTree, mixture: Float[Array, " feature"]) -> Scalar:
        """The state with a given mixture of the functions of place."""
        step, coordinates = z[STEP], z[COORDINATES]
        columns = self.functions.at(place)[1 + self.num_responses :]
        lifted = columns @ (self.lifting[step] @ with_one(coordinates))
        result = lifted + self.basis(place) @ mixture
        if not self.begins:
            return result
        initial = place.barycentric @ z[BEGUN][place.corners]
        return jnp.where(step == 0, initial, result)

    def basis(self, place: Place) -> Float[Array, " feature"]:
        """The functions of place, zero where values are prescribed."""
        columns = self.functions.at(place)
        smooth = columns[0] * self.network.features(self.frame.inside(place.x))
        responses = columns[1 : 1 + self.num_responses]
        return self.frame.output_scale * jnp.concatenate([smooth, responses])

    def at_nodes(
        self, nodes: Int[Array, " node"], x: Float[Array, "node dim"]
    ) -> tuple[Float[Array, "node feature"], Float[Array, "node column"]]:
        """The functions of place and the liftings at some nodes, with their coordinates."""
        corners = x.shape[1] + 1
        first = jnp.zeros(corners, x.dtype).at[0].set(1.0)

        def basis(node, x):
            return self.basis(Place(x, jnp.broadcast_to(node, (corners,)), first))

        return jax.vmap(basis)(nodes, x), self.functions.values[nodes, 1 + self.num_responses :]


def with_one(coordinates: Coordinates) -> Float[Array, " coordinate_plus_one"]:
    return jnp.concatenate([jnp.ones(1, coordinates.dtype), coordinates])


class Lifting(NamedTuple):
    """Prescribed values at all times as combinations of some."""

    columns: Float[np.ndarray, "fixed column"]
    weights: Float[np.ndarray, "time column coordinate_plus_one"]


def lifting_in_time(
    problem: BoundaryValueProblem, latents: LatentSpace, times: Float[np.ndarray, " time"]
) -> Lifting:
    """Prescribed values by the coordinates; raises where they are not affine in them."""
    if not len(problem.fixed):
        return Lifting(np.zeros((0, 0)), np.zeros((len(times), 0, latents.num_coordinates + 1)))
    start, slopes = affine_in_coordinates(problem, latents, times)
    every = np.concatenate([start[..., None], slopes], axis=2)  # time, fixed, coordinate + 1
    table = np.moveaxis(every, 1, 0).reshape(len(problem.fixed), -1)
    left, sizes, right = np.linalg.svd(table, full_matrices=False)
    count = int(np.sum(sizes > RANK_TOLERANCE * sizes[:1].sum()))
    weights = (sizes[:count, None] * right[:count]).reshape(count, len(times), every.shape[2])
    return Lifting(left[:, :count], np.moveaxis(weights, 1, 0))


def responses(
    problem: BoundaryValueProblem, shifts: tuple[float, ...]
) -> Float[np.ndarray, "node response"]:
    r"""What unit sources at the wells' points do, $(A + \sigma M)\,w = \delta$ for some $\sigma$.

    From what a step leaves to what is left in the end: solutions in time are nearly combinations of
    few of these (they span a rational Krylov space; Druskin & Simoncini 2011).
    """
    points = [operator for _, operator in wells_at_known_points(problem)]
    count = sum(operator.num_rows for operator in points)
    nothing, free = jnp.zeros(problem.space.num_dofs, problem.dtype), np.asarray(problem.free)
    if not 0 < count <= MOST_WELLS:
        return np.zeros((problem.space.num_dofs, 0))
    loads = np.hstack([operator.to_scipy().toarray().T for operator in points])[free]
    result = []
    for shift in shifts:
        form = diffusion(1.0) + reaction(shift)
        matrix = jacobian(with_form(problem, form), nothing).to_scipy().tocsc()
        columns = spla.splu(matrix).solve(np.asarray(loads, float))
        result.append(columns / np.abs(columns).max(axis=0))
    whole = np.zeros((problem.space.num_dofs, count * len(shifts)))
    whole[free] = np.hstack(result)
    return whole


def trajectory(
    problem: BoundaryValueProblem,
    network: TrunkBranch,
    frame: Frame,
    lifting: Lifting,
    beside: Float[np.ndarray, "node response"],
    *,
    begins: bool,
) -> Trajectory:
    """With nothing read out yet: the lifting alone."""
    mesh, dtype = problem.space.mesh, problem.dtype
    if len(problem.fixed):
        columns = factor_and_lifting(problem, lifting.columns)
        columns = np.column_stack([columns[:, :1], beside, columns[:, 1:]])
    else:
        columns = np.column_stack([np.ones(mesh.num_nodes), beside])
    num_times, (hidden, smooth) = len(lifting.weights), network.readout.shape
    return Trajectory(
        network=network,
        functions=nodal_functions(mesh, columns, dtype),
        frame=frame,
        lifting=on_device(lifting.weights, dtype),
        readouts=jnp.zeros((num_times, hidden, smooth + beside.shape[1]), dtype),
        num_responses=beside.shape[1],
        begins=begins,
    )
