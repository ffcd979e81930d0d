"""A made-up site of the form of the real one: a rectangle between a river and hills."""

import numpy as np

SIDES = (6, 5)
INFLOW = 3.0
RIVER = 100.0


def small_site(finer: int = 1) -> dict[str, np.ndarray]:
    """Arrays of a file; each cell of `finer` 2 is a quarter of one, and quarters follow."""
    across, up = SIDES[0] * finer, SIDES[1] * finer
    x, y = np.meshgrid(np.linspace(0, 0.6, across + 1), np.linspace(0, 0.5, up + 1))
    nodes = np.stack([x.ravel(), y.ravel()], axis=1)

    def node(i, j):
        return j * (across + 1) + i

    def cell(i, j):
        return [node(i, j), node(i + 1, j), node(i + 1, j + 1), node(i, j + 1)]

    cells = np.array(
        [
            cell(finer * i + a, finer * j + b)
            for j in range(SIDES[1])
            for i in range(SIDES[0])
            for b in range(finer)
            for a in range(finer)
        ]
    )
    count = finer**2
    west = [[node(0, j + 1), node(0, j)] for j in range(up)]
    east = [[node(across, j), node(across, j + 1)] for j in range(up)]
    south = [[node(i, 0), node(i + 1, 0)] for i in range(across)]
    kinds = [1] * up + [2] * up + [0] * across
    values = [RIVER] * up + [INFLOW / up] * up + [0.0] * across
    centroids = nodes[cells].mean(axis=1)
    truth = 1.0 + np.sin(7 * centroids[:, 0]) + np.cos(9 * centroids[:, 1])
    rng = np.random.default_rng(0)
    coarse = np.array([rng.permutation(SIDES[0] * SIDES[1])[:8] for _ in range(10)])
    return {
        "nodes": nodes,
        "cells": cells,
        "cell_centroid": centroids,
        "boundary_face_nodes": np.array(west + east + south),
        "boundary_face_tag": np.array(kinds),
        "boundary_face_value_conserving": np.array(values),
        "log_T_rf1": truth,
        "head_tpfa_rf1": np.full(len(cells), RIVER),
        "head_tpfa_rf1_conserving": np.full(len(cells), RIVER),
        "well_cells": np.arange(0, len(cells), 4) + finer - 1,
        "parent_1x": np.arange(len(cells)) // count,
        **{f"y_cells_{number}": coarse * count for number in (25, 50, 100)},
    }


def write_small(folder) -> None:
    for mesh, finer in (("1x", 1), ("4x", 2)):
        np.savez(folder / f"hanford_{mesh}.npz", allow_pickle=False, **small_site(finer))
