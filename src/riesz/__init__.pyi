"""Every public name of `riesz` and where it is defined, layer by layer.

The namespace is read from here when the package is imported: a line here makes a name public.
"""

# pyright: strict

from . import case as case
from . import datasets as datasets
from . import diagnose as diagnose
from . import errors as errors
from . import fem as fem
from . import inference as inference
from . import io as io
from . import mesh as mesh
from . import observe as observe
from . import penalty as penalty
from . import plot as plot
from . import prediction as prediction
from . import priors as priors
from . import solvers as solvers
from .mesh.shapes import interval as interval
from .mesh.shapes import rectangle as rectangle
from .mesh.refinement import hierarchy as hierarchy
from .mesher.polygon import mesh_from_polygon as mesh_from_polygon
from .fem.elements.space import P1 as P1
from .fem.elements.space import P2 as P2
from .fem.terms.coefficient import nodal as nodal
from .fem.terms.coefficient import per_cell as per_cell
from .fem.terms.regional import by_region as by_region
from .fem.terms.weakform import advection as advection
from .fem.terms.weakform import diffusion as diffusion
from .fem.terms.weakform import integral as integral
from .fem.terms.weakform import neumann as neumann
from .fem.terms.weakform import point_source as point_source
from .fem.terms.weakform import reaction as reaction
from .fem.terms.weakform import robin as robin
from .fem.terms.weakform import source as source
from .fem.terms.weakform import storage as storage
from .fem.terms.series import series as series
from .fem.problem import boundary_value_problem as boundary_value_problem
from .fem.solve import solve as solve
from .fem.time.problem import transient_problem as transient_problem
from .penalty.penalty import weak_form_penalty as weak_form_penalty
from .priors.kernels import Matern32 as Matern32
from .priors.gaussian_process import GP as GP
from .priors.gaussian_process import BoundaryGP as BoundaryGP
from .priors.karhunen_loeve import KarhunenLoeve as KarhunenLoeve
from .priors.regions import Regions as Regions
from .priors.spde import SPDEField as SPDEField
from .observe.observations import observations as observations
from .observe.likelihood import Censored as Censored
from .observe.likelihood import Gaussian as Gaussian
from .observe.likelihood import StudentT as StudentT
from .observe.noise import Poisson as Poisson
from .problem.posing import Experiment as Experiment
from .problem.unknowns import Unknown as Unknown
from .problem.problem import InverseProblem as InverseProblem
from .problem.posing import inverse_problem as inverse_problem
from .posterior.posterior import Posterior as Posterior
from .method.laplace import Laplace as Laplace
from .method.gaussian_vi import GaussianVI as GaussianVI
from .method.mcmc.mcmc import MCMC as MCMC
from .density.exact import Exact as Exact
from .density.reduced_basis import ReducedBasis as ReducedBasis
from .density.surrogate.surrogate import Surrogate as Surrogate
from .density.relaxed.relaxed import Relaxed as Relaxed
from .density.marginal.marginal import Marginal as Marginal
from .amortise.engine import Amortise as Amortise
from .inference.fit import fit as fit
from .prediction.predict import predict as predict
from .prediction.measure_next import measure_next as measure_next
from .diagnose.goal_oriented import refine as refine
from .diagnose.summary import summary as summary
from .comparison.compare import compare as compare
from .case.file.problem import read_problem as read_problem
from .case.run.folder import read_run as read_run
from .errors import RieszError as RieszError

__version__: str
