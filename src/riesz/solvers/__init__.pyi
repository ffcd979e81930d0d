from riesz.fem.default_solver import multigrid as multigrid
from riesz.fem.linear.linear_solve import AbstractLinearSolver as AbstractLinearSolver
from riesz.fem.linear.linear_solve import ConjugateGradients as ConjugateGradients
from riesz.fem.linear.linear_solve import Dense as Dense
from riesz.fem.linear.linear_solve import SparseLU as SparseLU
from riesz.fem.linear.multigrid.solver import Multigrid as Multigrid
from riesz.fem.linear.sparse import SparseMatrix as SparseMatrix
from riesz.fem.linear.sparse import SparsePattern as SparsePattern

from . import blocks as blocks
