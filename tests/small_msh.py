"""One mesh as Gmsh saves it, in both formats: groups overlap, and one of them is empty."""

import numpy as np

from riesz.mesh.mesh import Mesh

NAMES = """$PhysicalNames
6
1 1 "left"
1 2 "right"
1 3 "both ends"
2 1 "lake"
2 2 "forêt noire"
2 3 "none"
$EndPhysicalNames
"""

# A cell or facet in two groups is written twice.
MSH_22 = f"""$MeshFormat
2.2 0 8
$EndMeshFormat
{NAMES}$Nodes
4
1 0.0 0.0 0.0
2 1.0 0.0 0.0
3 0.0 1.0 0.0
4 1.0 1.0 0.0
$EndNodes
$Elements
7
1 2 2 1 1 1 2 4
2 2 2 2 2 1 4 3
3 1 2 1 1 1 3
4 1 2 2 2 2 4
5 2 2 2 2 1 2 4
6 1 2 3 3 1 3
7 1 2 3 3 2 4
$EndElements
"""

# An entity for each set of groups.
MSH_41 = f"""$MeshFormat
4.1 0 8
$EndMeshFormat
{NAMES}$Entities
0 2 2 0
1 0.0 0.0 0.0 0.0 1.0 0.0 2 1 3 0
2 1.0 0.0 0.0 1.0 1.0 0.0 2 2 3 0
1 0.0 0.0 0.0 1.0 1.0 0.0 2 1 2 0
2 0.0 0.0 0.0 1.0 1.0 0.0 1 2 0
$EndEntities
$Nodes
1 4 1 4
2 1 0 4
1
2
3
4
0.0 0.0 0.0
1.0 0.0 0.0
0.0 1.0 0.0
1.0 1.0 0.0
$EndNodes
$Elements
4 4 1 4
1 1 1 1
3 1 3
1 2 1 1
4 2 4
2 1 2 1
1 1 2 4
2 2 2 1
2 1 4 3
$EndElements
"""


def small_mesh() -> Mesh:
    """What both hold."""
    nodes = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    left, right = np.array([[0, 2]]), np.array([[1, 3]])
    facets = {"left": left, "right": right, "both ends": np.concatenate([left, right])}
    regions = {"lake": np.array([0]), "forêt noire": np.array([0, 1]), "none": np.arange(0)}
    return Mesh(nodes, np.array([[0, 1, 3], [0, 3, 2]]), facets, regions)
