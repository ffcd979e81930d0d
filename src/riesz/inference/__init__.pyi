from riesz.engines.amortise.amortised import Amortised as Amortised
from riesz.engines.amortise.fits import DataSetFits as DataSetFits
from riesz.engines.amortise.simulate import PriorSurrogate as PriorSurrogate
from riesz.engines.base import AbstractEngine as AbstractEngine
from riesz.engines.conditional.assimilate import assimilate as assimilate
from riesz.engines.conditional.linear import conditional_mixture as conditional_mixture
from riesz.engines.conditional.linear import conditional_moments as conditional_moments
from riesz.engines.reduced.engine import Reduced as Reduced
from riesz.engines.relax.schedule import Annealed as Annealed
from riesz.engines.relax.schedule import Fixed as Fixed
from riesz.engines.relax.schedule import Learned as Learned
from riesz.engines.table import check_engine as check_engine

from .batch import fit_data_sets as fit_data_sets
