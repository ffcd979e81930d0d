from .maps.outlines import read_domain as read_domain
from .maps.outlines import read_outline as read_outline
from .meshes.files import read_mesh as read_mesh
from .meshes.files import write_mesh as write_mesh
from .store.results import results as results
from .store.results import write_results as write_results
from .tables.layers import TextTable as TextTable
from .tables.layers import read_table as read_table
