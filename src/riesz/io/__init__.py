"""Files: what users bring and what they take away."""

from riesz.io.mesh_file import read_mesh, write_mesh

__all__ = ["read_mesh", "write_mesh"]
