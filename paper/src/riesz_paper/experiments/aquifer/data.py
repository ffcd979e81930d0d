"""The plain of the experiment `aquifer` as its methods see it: meshes, places and values."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from riesz.mesh.mesh import Mesh
from riesz.mesh.refinement import Hierarchy, hierarchy
from riesz.mesher.polygon import mesh_from_polygon
from riesz_paper.data.esrp import Aquifer, Split, Wells, splits_of
from riesz_paper.experiments.aquifer.model import KM
from riesz_paper.regression.covariates import Covariates

SPLITS = ("A", "B1", "B2", "D")
QUANTITIES = ("head", "depth")
NEAR_EDGE, MAX_EDGE = 2.0, 8.0  # km, at wells and far from them
COARSE_EDGE, SIMPLIFIED, LEVELS = 40.0, 8.0, 3  # km, and meshes, the finest of 1,541 nodes
NEAR_KM = 25.0
EVERY, NEAR = "all", "within 25 km"


def places_of(wells: Wells) -> Covariates:
    return Covariates(wells.points, {}, {})


@lru_cache(maxsize=4)
def mesh_of(aquifer: Aquifer, refinement: float = 1.0) -> Mesh:
    """Fine around all wells, in km."""
    return mesh_from_polygon(
        aquifer.outline / KM,
        max_edge=MAX_EDGE / refinement,
        refine_near=all_places(aquifer),
        near_edge=NEAR_EDGE / refinement,
    )


@lru_cache(maxsize=2)
def meshes_of(aquifer: Aquifer) -> Hierarchy:
    """For mini-patches: from coarse to fine, everywhere alike; in metres."""
    coarse = mesh_from_polygon(
        aquifer.outline,
        max_edge=COARSE_EDGE * KM,
        simplify=SIMPLIFIED * KM,
        keep_inside=all_places(aquifer) * KM,
    )
    return hierarchy(coarse, LEVELS)


def all_places(aquifer: Aquifer) -> Float[np.ndarray, "place 2"]:
    """Of the wells of all splits, each once; in km."""
    splits = [split for name in SPLITS for split in splits_of(aquifer, name)]
    points = np.concatenate([w.points for s in splits for w in (s.training, s.test)])
    return np.unique(points, axis=0) / KM


def values_of(wells: Wells, quantity: str) -> Float[np.ndarray, " well"]:
    """Heads, or depths to water: the land surface minus the head."""
    return wells.head if quantity == "head" else wells.surface - wells.head


def subsets_of(split: str) -> tuple[str, ...]:
    """Test wells near the training wells are looked at apart where others are far from them."""
    return (EVERY, NEAR) if split in ("B1", "B2") else (EVERY,)


def is_in(split: Split, subset: str) -> np.ndarray:
    if subset == EVERY:
        return np.ones(len(split.test.head), dtype=bool)
    return split.hull_distance_km < NEAR_KM
