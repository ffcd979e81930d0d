"""Files: what users bring and what they take away."""

from riesz.io.domain_file import read_domain, read_outline
from riesz.io.mesh_file import read_mesh, write_mesh

__all__ = ["read_domain", "read_mesh", "read_outline", "write_mesh"]
