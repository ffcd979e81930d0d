"""A short name for what a mesh holds, to tell whether two are the same."""

from hashlib import blake2b

import numpy as np

from riesz.mesh.mesh import Mesh


def mesh_digest(mesh: Mesh) -> str:
    """Sixteen hexadecimal digits that change with any node, cell or tag."""
    parts = {"nodes": mesh.nodes, "cells": mesh.cells}
    parts |= {f"facets {name}": mesh.facets[name] for name in sorted(mesh.facets)}
    parts |= {f"region {name}": mesh.regions[name] for name in sorted(mesh.regions)}
    digest = blake2b(digest_size=8)
    for name, array in parts.items():
        digest.update(repr((name, array.shape)).encode())
        # The same bytes on every machine.
        digest.update(np.ascontiguousarray(array, dtype=f"<{array.dtype.kind}8").tobytes())
    return digest.hexdigest()
