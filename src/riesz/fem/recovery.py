"""Gradients of nodal functions at the nodes, more accurate than those inside the cells.

Around each node a quadratic polynomial is fitted to the values at the neighbours and their
neighbours; its slope is accurate to second order, where the gradient in a cell is to first
(polynomial-preserving recovery, Zhang & Naga 2005).
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from riesz.mesh.mesh import Mesh

NODES_AT_ONCE = 20_000
"""Bounds the memory of the fits."""

RIDGE = 1e-9
"""Where too few neighbours fix a quadratic, the smallest one is taken."""


def recovered_gradients(
    mesh: Mesh, values: Float[np.ndarray, "node column"]
) -> Float[np.ndarray, "node dim column"]:
    """The gradients of several nodal functions at every node."""
    near = neighbours(mesh)
    gradients = np.empty((mesh.num_nodes, mesh.dim, values.shape[1]))
    for start in range(0, mesh.num_nodes, NODES_AT_ONCE):
        part = slice(start, min(start + NODES_AT_ONCE, mesh.num_nodes))
        gradients[part] = fitted_slopes(mesh, values, padded(near[part]), part)
    return gradients


def neighbours(mesh: Mesh) -> sp.csr_array:
    """Which nodes lie within two edges of each other."""
    corners = mesh.cells.shape[1]
    rows = np.repeat(mesh.cells, corners, axis=1).ravel()
    columns = np.tile(mesh.cells, (1, corners)).ravel()
    shape = (mesh.num_nodes, mesh.num_nodes)
    adjacent = sp.coo_array((np.ones(len(rows), np.int32), (rows, columns)), shape=shape).tocsr()
    return sp.csr_array(adjacent @ adjacent)


def padded(rows: sp.csr_array) -> Int[np.ndarray, "node near"]:
    """The column indices of each row; -1 fills up."""
    counts = np.diff(rows.indptr)
    table = np.full((len(counts), counts.max()), -1)
    row = np.repeat(np.arange(len(counts)), counts)
    table[row, np.arange(len(row)) - np.repeat(rows.indptr[:-1], counts)] = rows.indices
    return table


def fitted_slopes(
    mesh: Mesh,
    values: Float[np.ndarray, "node column"],
    near: Int[np.ndarray, "chosen near"],
    chosen: slice,
) -> Float[np.ndarray, "chosen dim column"]:
    there = (near >= 0)[:, :, None]
    steps = np.where(there, mesh.nodes[near] - mesh.nodes[chosen][:, None], 0.0)
    size = np.abs(steps).max(axis=(1, 2), keepdims=True)
    local = steps / size
    pairs = np.triu_indices(mesh.dim)
    # Without a constant: the polynomial passes through the node's own value.
    monomials = np.concatenate([local, local[..., pairs[0]] * local[..., pairs[1]]], axis=2)
    rises = np.where(there, values[near] - values[chosen][:, None], 0.0)
    normal = np.einsum("nki,nkj->nij", monomials, monomials)
    trace = np.trace(normal, axis1=1, axis2=2)[:, None, None]
    normal += RIDGE * trace * np.eye(normal.shape[1])
    fitted = np.linalg.solve(normal, np.einsum("nki,nkc->nic", monomials, rises))
    return fitted[:, : mesh.dim] / size
