r"""Gaussian fields by their principal functions: the Karhunen-Loeve expansion.

$g(x) = m(x) + \sum_k \sqrt{\lambda_k}\,\xi_k\,\phi_k(x)$ with the largest eigenvalues of the
covariance operator in $L^2$ of the domain (Ghanem & Spanos 1991). The eigenproblem is taken at the
nodes, weighted by their volumes (the lumped mass matrix); on large meshes at some of them, and
carried to the others by Nystrom's formula $\phi(x) = \lambda^{-1}\int k(x, y)\,\phi(y)\,dy$.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from jaxtyping import Array, Float, PyTree

from riesz.arrays import as_like
from riesz.errors import RieszError
from riesz.fem.elements.domain import Domain
from riesz.fem.terms.pointwise import Point
from riesz.mesh.mesh import Mesh
from riesz.priors import fields
from riesz.priors.kernels import AbstractKernel, kernel_on
from riesz.priors.latent import AbstractFieldPrior
from riesz.priors.representatives import node_volumes, spread_nodes, volumes_about

DENSE_NODES = 1200
"""The eigenproblem is solved at all nodes up to this number, and at this many nodes beyond."""


class InterpolatedField(fields.AbstractArrayField):
    """A combination of nodal functions, linear in each cell, then transformed point by point."""

    basis: Float[Array, "weight node"]
    mean: Float[Array, " node"]
    transform: fields.Transform | None = eqx.field(static=True)

    def gather(self, domain: Domain) -> PyTree[Array]:
        return self.basis[:, domain.corners], self.mean[domain.corners]

    def at(
        self, local: PyTree[Array], point: Point, weights: Float[Array, " weight"]
    ) -> Float[Array, ""]:
        basis, mean = fields.cell_values(local, "Karhunen-Loeve field")
        # The basis first: it is the same for all samples of the weights.
        functions = sum(basis[:, i] * shape for i, shape in enumerate(point.barycentric))
        middle = sum(mean[i] * shape for i, shape in enumerate(point.barycentric))
        return fields.apply_transform(self.transform, middle + functions @ weights)

    @property
    def is_log(self) -> bool:
        return self.transform is jnp.exp

    def nodal(self, weights: fields.AnyWeights, some: fields.Chosen = fields.ALL) -> fields.AtNodes:
        basis, mean = as_like(self.basis, weights), as_like(self.mean, weights)
        return fields.apply_transform(self.transform, mean[some] + weights @ basis[:, some])


class KarhunenLoeve(AbstractFieldPrior):
    """A Gaussian field with the given covariance, by its `num_terms` principal functions.

    `mean` is a number or a function of one place; `transform`, such as `jnp.exp`, turns the
    Gaussian value at each point into the quantity. How much of the variance the terms keep stands
    in the description of the unknown.
    """

    kernel: AbstractKernel
    num_terms: int = eqx.field(static=True, default=16)
    mean: fields.Mean = eqx.field(static=True, default=0.0, converter=fields.as_mean)
    transform: fields.Transform | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.num_terms < 1:
            raise RieszError(f"num_terms is {self.num_terms}: give at least one.")

    def on(self, mesh: Mesh) -> fields.GaussianField:
        kernel = kernel_on(self.kernel, mesh)
        basis = karhunen_loeve_basis(mesh, kernel, self.num_terms)
        mean = fields.mean_at_nodes(self.mean, mesh)
        sd = np.sqrt(np.sum(basis**2, axis=0))
        kept = karhunen_loeve_variance(mesh, kernel, basis)
        description = (
            f"Karhunen-Loeve field, {kernel.describe()}, {self.num_terms} terms keep "
            f"{100 * kept:.1f} % of the variance, "
            f"{fields.range_text(mean, sd, self.transform)}"
        )
        field = InterpolatedField(jnp.asarray(basis), jnp.asarray(mean), self.transform)
        return fields.GaussianField(field, description, self.num_terms)


def karhunen_loeve_basis(
    mesh: Mesh, kernel: AbstractKernel, num_terms: int, dense_nodes: int = DENSE_NODES
) -> Float[np.ndarray, "term node"]:
    r"""$\sqrt{\lambda_k}\,\phi_k$ at the nodes, largest first, each positive where it is largest.

    Memory is bounded by the square of `dense_nodes` beside the result.
    """
    num_used = min(mesh.num_nodes, dense_nodes)
    if num_terms > num_used:
        raise RieszError(
            f"{num_terms} terms were asked for, but there are {mesh.num_nodes} nodes, of which "
            f"{num_used} are used: ask for fewer terms, or use GP."
        )
    if mesh.num_nodes <= dense_nodes:
        values, functions = eigenpairs(kernel, mesh.nodes, node_volumes(mesh), num_terms)
        basis = np.sqrt(values)[:, None] * functions
    else:
        scales = np.asarray(kernel.length_scale)
        chosen = spread_nodes(mesh, dense_nodes, scales)
        places, volumes = mesh.nodes[chosen], volumes_about(mesh, chosen)
        values, functions = eigenpairs(kernel, places, volumes, num_terms)
        carried = (functions * volumes / np.sqrt(values)[:, None]).T
        basis = np.empty((num_terms, mesh.num_nodes))
        for start in range(0, mesh.num_nodes, fields.NODES_AT_ONCE):
            part = slice(start, start + fields.NODES_AT_ONCE)
            basis[:, part] = (kernel.matrix(mesh.nodes[part], places) @ carried).T
    largest = np.take_along_axis(basis, np.abs(basis).argmax(axis=1)[:, None], axis=1)
    return basis * np.sign(largest)


def eigenpairs(
    kernel: AbstractKernel,
    places: Float[np.ndarray, "place dim"],
    volumes: Float[np.ndarray, " place"],
    num_terms: int,
) -> tuple[Float[np.ndarray, " term"], Float[np.ndarray, "term place"]]:
    r"""Solutions of $\sum_j k(x_i, x_j)\,w_j\,\phi(x_j) = \lambda\,\phi(x_i)$, largest first.

    The functions are orthonormal with the volumes $w$ as weights.
    """
    roots = np.sqrt(volumes)
    weighted = roots[:, None] * kernel.matrix(places, places) * roots
    last = len(places) - 1
    values, vectors = sla.eigh(weighted, subset_by_index=(last - num_terms + 1, last))
    # Rounding can leave the smallest of a smooth kernel below zero.
    smallest = np.finfo(float).eps * values[-1]
    return np.maximum(values[::-1], smallest), (vectors[:, ::-1] / roots[:, None]).T


def karhunen_loeve_variance(
    mesh: Mesh, kernel: AbstractKernel, basis: Float[np.ndarray, "term node"]
) -> float:
    """The share of the field's variance, integrated over the domain, that an expansion has."""
    volumes = node_volumes(mesh)
    return float(np.sum(basis**2 @ volumes) / (float(kernel.sd) ** 2 * volumes.sum()))
