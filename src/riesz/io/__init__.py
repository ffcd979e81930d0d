"""Files: what users bring and what they take away."""

from riesz.io.maps.outlines import read_domain, read_outline
from riesz.io.meshes.files import read_mesh, write_mesh
from riesz.io.store.results import results, write_results
from riesz.io.tables.layers import read_table
from riesz.io.tables.text import TextTable

__all__ = [
    "TextTable",
    "read_domain",
    "read_mesh",
    "read_outline",
    "read_table",
    "results",
    "write_mesh",
    "write_results",
]
