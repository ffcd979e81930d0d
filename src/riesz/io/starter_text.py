"""The words of a first problem file; `riesz.io.problem_starter` fills in the numbers."""

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
file = {table}
x = {x}
y = {y}
value = {value}
{rows}# unit = "mg/kg"             # shown in maps and tables
# transform = "log"          # the state is the logarithm of the value: for skewed positive values
# covariates = ["A", "B"]    # columns measured beside the value, whose effects are found too

[noise]
sd = {noise}   # of a measurement: a tenth of the spread of the values; give what you know

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

[unknowns.rim]               # values along the boundary: a trend, and a process about it
prior = "boundary-gp"
mean = {mean}   # the mean of the values
sd = {spread}   # their standard deviation
trend_sd = {spread}

[engine]
name = "conditional"         # exact and quick, as the state is linear in both; auto chooses itself
"""
