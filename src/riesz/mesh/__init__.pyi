from riesz.mesher.polygon import mesh_from_points as mesh_from_points

from .grids import grid as grid
from .location import locate as locate
from .mesh import Mesh as Mesh
from .quality import quality_report as quality_report
from .refinement import Hierarchy as Hierarchy
from .refinement import refine as refine
from .shapes import box as box
from .shapes import disc as disc
from .shapes import geometric_ticks as geometric_ticks
from .shapes import l_shape as l_shape
from .tags import tag_boundary as tag_boundary
from .tags import tag_boundary_inside as tag_boundary_inside
from .tags import tag_boundary_near as tag_boundary_near
from .tags import tag_line as tag_line
from .tags import tag_region as tag_region
