"""Quadrature points on cells and facets, and where they lie in the finest mesh.

Coefficients live on the finest mesh: they are evaluated there, so that a coarse residual sees the
same physics as a fine one.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from riesz.fem.elements.domain import (
    Quadrature,
    facet_barycentric,
    inverse_jacobians,
    quadrature,
)
from riesz.mesh.facets import facet_measures, outward_normals
from riesz.mesh.location import barycentric_coordinates
from riesz.mesh.mesh import Mesh, cell_volumes
from riesz.mesh.tags import facets_of_tag

AnyArray = Array | np.ndarray

Meshes = tuple[Mesh, ...]
"""Each a uniform refinement of the one before it; the last one is the finest."""

DEGREE = 4
"""Six points a triangle: the error of a residual is then far below that of training."""


class LevelPoints(eqx.Module):
    """Points on cells or facets of a level, with the shape functions of their cells."""

    x: Float[AnyArray, "point dim entity"]
    weights: Float[AnyArray, "point entity"]  # of the quadrature, times the measure
    barycentric: Float[AnyArray, "point corner entity"]  # in the level's cell
    inverse_jacobian: Float[AnyArray, "dim dim entity"]  # of the level's cell
    fine_cell: Int[AnyArray, "point entity"]  # of the finest mesh
    fine_barycentric: Float[AnyArray, "point corner entity"]
    normal: Float[AnyArray, "dim entity"] | None  # of facets

    def take(self, entities: Int[Array, " chosen"]) -> "LevelPoints":
        """Chosen entities; an index past the end stands for nothing."""
        chosen = jax.tree.map(lambda array: jnp.take(array, entities, axis=-1, mode="clip"), self)
        there = entities < self.weights.shape[1]
        return dataclasses.replace(chosen, weights=jnp.where(there, chosen.weights, 0.0))


def points_on_cells(meshes: Meshes, levels: tuple[int, ...], dtype: np.dtype) -> LevelPoints:
    """Quadrature points on the cells of the meshes with the given indices."""
    rule = quadrature(meshes[0].dim, DEGREE)
    return join_points([cell_points(meshes, level, rule) for level in levels], dtype)


def points_on_facets(
    meshes: Meshes, levels: tuple[int, ...], tag: str, dtype: np.dtype
) -> LevelPoints:
    """Quadrature points on the facets with one tag."""
    rule = quadrature(meshes[0].dim - 1, DEGREE)
    return join_points([facet_points(meshes, level, tag, rule) for level in levels], dtype)


def join_points(parts: list[LevelPoints], dtype: np.dtype) -> LevelPoints:
    """Entities of several meshes side by side, on the device."""

    def join(*arrays):
        whole = np.concatenate(arrays, axis=-1)
        return jnp.asarray(whole, dtype=jnp.int32 if whole.dtype.kind == "i" else dtype)

    return jax.tree.map(join, *parts)


def cell_points(meshes: Meshes, level: int, rule: Quadrature) -> LevelPoints:
    mesh = meshes[level]
    barycentric = np.broadcast_to(rule.points[:, None], (*rule.weights.shape, *mesh.cells.shape))
    measure = cell_volumes(mesh.nodes, mesh.cells)
    return locate_on_finest(
        meshes, level, np.arange(mesh.num_cells), barycentric, rule, measure, None
    )


def facet_points(meshes: Meshes, level: int, tag: str, rule: Quadrature) -> LevelPoints:
    mesh = meshes[level]
    facets = facets_of_tag(mesh, tag)
    barycentric = facet_barycentric(rule, facets.opposite, mesh.dim)
    measure = facet_measures(mesh.nodes, facets.nodes)
    normals = outward_normals(mesh, facets).T
    return locate_on_finest(meshes, level, facets.cell, barycentric, rule, measure, normals)


def locate_on_finest(
    meshes: Meshes,
    level: int,
    cell: Int[np.ndarray, " entity"],
    barycentric: Float[np.ndarray, "point entity corner"],
    rule: Quadrature,
    measure: Float[np.ndarray, " entity"],
    normal: Float[np.ndarray, "dim entity"] | None,
) -> LevelPoints:
    """Points given in coarse cells, with their places in the finest mesh; arrays of the host."""
    mesh = meshes[level]
    x = np.einsum("qec,ecd->qed", barycentric, mesh.nodes[mesh.cells[cell]])
    start = np.broadcast_to(cell, x.shape[:2])
    fine_cell, fine_barycentric = descend(x, start, meshes[level + 1 :], barycentric)
    return LevelPoints(
        x=np.moveaxis(x, 1, 2),
        weights=rule.weights[:, None] * measure,
        barycentric=np.moveaxis(barycentric, 1, 2),
        inverse_jacobian=inverse_jacobians(mesh.nodes, mesh.cells[cell]),
        fine_cell=fine_cell,
        fine_barycentric=np.moveaxis(fine_barycentric, 1, 2),
        normal=normal,
    )


def descend(
    places: Float[np.ndarray, "point entity dim"],
    cell: Int[np.ndarray, "point entity"],
    finer: tuple[Mesh, ...],
    barycentric: Float[np.ndarray, "point entity corner"],
) -> tuple[Int[np.ndarray, "point entity"], Float[np.ndarray, "point entity corner"]]:
    """The finest cell that holds each place, and where in it, from mesh to mesh.

    Uniform refinement numbers the children of a cell one after the other.
    """
    num_children = 2 ** places.shape[-1]
    for mesh in finer:
        candidates = cell[..., None] * num_children + np.arange(num_children)
        corners = mesh.nodes[mesh.cells[candidates]]
        inside = barycentric_coordinates(corners, places[..., None, :])
        child = inside.min(axis=-1).argmax(axis=-1)
        cell = np.take_along_axis(candidates, child[..., None], axis=-1)[..., 0]
        barycentric = np.take_along_axis(inside, child[..., None, None], axis=-2)[..., 0, :]
    return cell, barycentric
