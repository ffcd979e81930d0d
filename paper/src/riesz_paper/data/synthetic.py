"""A made-up aquifer: an outline and wells that are as awkward as real ones."""

import numpy as np
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.geometry.outline import contains, distance_to_outline, outline_from

NUM_VERTICES = 80
FAR_SHARE = 0.15  # of the wells, the rest being in the cluster
CLEARANCE = 2e3  # metres between a well and the outline
CLUSTER_SPREAD = np.array([14e3, 9e3])  # metres, standard deviations along and across the plain


def aquifer_outline() -> Float[np.ndarray, "vertex 2"]:
    """Vertices, in metres and counter-clockwise, of a curved plain of about 250 by 100 km.

    Its axis bends like a shallow bow, its width swells in the middle, and waves of four lengths
    make the sides irregular without bringing them close to each other.
    """
    turn = 2 * np.pi * np.arange(NUM_VERTICES) / NUM_VERTICES
    ragged = 1 + 0.07 * np.sin(7 * turn + 1) + 0.05 * np.sin(11 * turn) * np.cos(3 * turn)
    ragged += 0.03 * np.sin(19 * turn + 2) + 0.02 * np.cos(31 * turn)
    along = ragged * np.cos(turn)
    across = ragged * np.sin(turn) * (0.8 + 0.2 * np.sin(2 * turn + 0.5))
    return to_map(along, across)


def to_map(along: Float[np.ndarray, " n"], across: Float[np.ndarray, " n"]):
    """Map coordinates of places given along and across the plain's axis, each from -1 to 1."""
    x = 150e3 + 118e3 * along
    y = 120e3 + 30e3 * along**2 + 54e3 * across
    return np.stack([x, y], axis=1)


def aquifer_wells(num_wells: int = 150, seed: int = 0) -> Float[np.ndarray, "well 2"]:
    """Wells inside `aquifer_outline`, in metres: most in one cluster and some far away.

    All are at least 2 km from the outline.
    """
    if num_wells < 1:
        raise RieszError(f"num_wells is {num_wells}: ask for at least one well.")
    rng = np.random.default_rng(seed)
    num_far = int(np.ceil(FAR_SHARE * num_wells))
    vertices = aquifer_outline()
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    centre = to_map(np.array([0.25]), np.array([0.1]))[0]
    near = draw_inside(lambda n: rng.normal(centre, CLUSTER_SPREAD, (n, 2)), num_wells - num_far)
    far = draw_inside(lambda n: rng.uniform(low, high, (n, 2)), num_far)
    return np.concatenate([near, far])


def draw_inside(draw, count: int) -> Float[np.ndarray, "count 2"]:
    """The first `count` of the drawn points that are well inside the outline."""
    outline = outline_from(aquifer_outline())
    points = np.zeros((0, 2))
    while len(points) < count:
        new = draw(2 * count)
        good = contains(outline, new) & (distance_to_outline(outline, new) > CLEARANCE)
        points = np.concatenate([points, new[good]])
    return points[:count]
