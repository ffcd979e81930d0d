"""Files: what users bring and what they take away."""

from riesz.io.maps.domain_file import read_domain, read_outline
from riesz.io.meshes.files import read_mesh, write_mesh

__all__ = ["read_domain", "read_mesh", "read_outline", "write_mesh"]
