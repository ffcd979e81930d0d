"""The words of a first problem file; `riesz.case.start.starter` fills in the numbers."""

STARTER = """# A first problem file, written by riesz init. Look at it with
#     riesz check THIS_FILE
# and change what you know better; then riesz fit THIS_FILE --out RUN. Files are relative to this
# one; lengths are in the unit of the coordinates.

{crs}

[domain]
{domain}
max_edge = {edge}   # no edge of the mesh is longer; about 2,000 nodes
levels = 1                   # one mesh; 2 or more are for the engines emulate and relax

[observations]
{observations}
[noise]
sd = "noise"                 # of a measurement: an unknown, below, or a number if you know it

[equation]                   # -div(diffusion grad u) + advection . grad u + reaction u = source
diffusion = 1.0              # fixed: only the ratio of the source to it can be told from values
source = "source"            # an unknown, below

[boundary.outer]             # where nothing is prescribed, nothing would pass the boundary
value = "rim"                # u on it is not known: an unknown, below

[unknowns.source]            # what bends the state: a smooth function of place
prior = "gp"
mean = 0.0
sd = {source}   # bends u by about the spread of the values over the length scale
length_scale = {length}   # how far a source reaches
inducing = 80                # how many numbers describe it
learn_scales = true          # sd and length_scale are medians; what they are is learned

[unknowns.rim]               # values along the boundary: a trend, and a process about it
prior = "boundary-gp"
mean = {mean}   # the mean of the values
sd = {spread}   # their standard deviation
trend_sd = {trend}   # of the trend, over the extent of the domain
learn_scales = true          # sd and the length scale along the boundary are learned, too

[unknowns.noise]             # what measurements scatter by about the state
prior = "half-normal"
sd = {spread}   # surely no more than the values themselves

[engine]
{engine}
"""

CONDITIONAL = (
    'name = "conditional"         # exact, as the state is linear in source and rim; auto chooses '
    "itself"
)
NUTS = (
    'name = "nuts"                # conditional takes no values below a limit; laplace is faster, '
    "but needs numbers for noise and scales"
)
