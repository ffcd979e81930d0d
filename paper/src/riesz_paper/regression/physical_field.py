r"""A field on a mesh that obeys an equation, with a source that is not known.

$$\kappa^2 w - \Delta w + \tau\cdot\nabla w = f,\qquad f \text{ white noise},$$

with no flux through the boundary: something is released everywhere at random, spreads by
diffusion, is carried along by $\tau$ and decays. Without transport this is a Matern field
(Lindgren, Rue & Lindström 2011) of range $\sqrt8 / \kappa$ and variance $1 / (4\pi\kappa^2)$ far
from the boundary; that variance scales the source.

In the eigenfunctions of finite elements, $S\phi_k = \lambda_k M\phi_k$, the equation of a field
$w = \sum_k c_k \phi_k$ is $(\kappa^2 + \lambda_k)\,c_k + \sum_l (\tau\cdot D)_{kl}\,c_l = \xi_k$
with standard normal $\xi_k$: without transport, a fit never solves anything.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from riesz.fem.assembly import matrix
from riesz.fem.elements.space import P1, point_operator
from riesz.fem.terms.weakform import WeakForm, advection, diffusion, reaction
from riesz.mesh.mesh import Mesh
from riesz_paper.regression.effects import AbstractEffect, Parameters
from riesz_paper.regression.sites import Matrix, Sites, Variances

NUM_MODES = 400
"""Those of the longest waves are kept; what is finer is left to noise and local effects."""


class Modes(NamedTuple):
    """Eigenfunctions of diffusion on a mesh, those of long waves first."""

    mesh: Mesh
    rates: Float[np.ndarray, " mode"]  # at which they decay by diffusion
    shapes: Float[np.ndarray, "node mode"]
    carried: Float[np.ndarray, "2 mode mode"] | None  # rates of unit transport along each axis

    def at(self, points: Float[np.ndarray, "place 2"]) -> Float[Array, "place mode"]:
        """Their values at places, all of which lie in the mesh."""
        return jnp.asarray(point_operator(P1(self.mesh), points).to_scipy() @ self.shapes)


class PhysicalField(AbstractEffect):
    """Diffusion, decay and, if modes are carried, transport of what an unknown source releases."""

    reads_numbers: ClassVar[bool] = False

    rates: Float[Array, " mode"]
    carried: Float[Array, "2 mode mode"] | None
    length: Float[Array, ""]  # the range where the search starts

    def initial(self, sites: Sites) -> Parameters:
        scales = {"log_sd": jnp.log(0.5), "log_range": jnp.log(self.length)}
        return scales if self.carried is None else {**scales, "drift": jnp.zeros(2)}

    def responses(self, parameters: Parameters, sites: Sites) -> Float[Array, "place mode"]:
        r"""How a unit of the source in each mode is felt at each place."""
        decay = 8 / jnp.exp(2 * parameters["log_range"])
        strength = jnp.exp(parameters["log_sd"]) * jnp.sqrt(4 * jnp.pi * decay)
        values = on_mesh(sites)
        if self.carried is None:
            return strength * values / (decay + self.rates)[None, :]
        # The drift is counted in inverse initial ranges.
        transport = jnp.tensordot(parameters["drift"] / self.length, self.carried, axes=1)
        operator = jnp.diag(decay + self.rates) + transport
        return strength * jnp.linalg.solve(operator.T, values.T).T

    def covariance(self, parameters: Parameters, sites: Sites, others: Sites) -> Matrix:
        own = self.responses(parameters, sites)
        other = own if others is sites else self.responses(parameters, others)
        return own @ other.T

    def variances(self, parameters: Parameters, sites: Sites) -> Variances:
        return jnp.sum(self.responses(parameters, sites) ** 2, axis=1)


def on_mesh(sites: Sites) -> Float[Array, "place mode"]:
    assert sites.modes is not None, "sites of a physical field are encoded with its modes"
    return sites.modes


def physical_field(modes: Modes, *, length: float) -> PhysicalField:
    """`length` is where the search for the range starts."""
    carried = None if modes.carried is None else jnp.asarray(modes.carried)
    return PhysicalField(jnp.asarray(modes.rates), carried, jnp.asarray(length))


def modes_of(mesh: Mesh, *, transport: bool) -> Modes:
    """By dense algebra, once for a mesh: seconds for 2,000 nodes; lumped masses."""
    masses = dense(mesh, reaction(1.0)).sum(axis=1)
    roots = np.sqrt(masses)
    stiffness = dense(mesh, diffusion(1.0)) / np.outer(roots, roots)
    kept = [0, min(NUM_MODES, len(masses)) - 1]
    rates, white = scipy.linalg.eigh(stiffness, subset_by_index=kept)
    shapes = white / roots[:, None]
    carried = None
    if transport:
        along = [dense(mesh, advection(jnp.asarray(axis))) for axis in np.eye(2)]
        carried = np.stack([shapes.T @ matrix @ shapes for matrix in along])
    return Modes(mesh, np.maximum(rates, 0.0), shapes, carried)


def dense(mesh: Mesh, form: WeakForm) -> Float[np.ndarray, "node node"]:
    return np.asarray(matrix(mesh, form).to_dense())
