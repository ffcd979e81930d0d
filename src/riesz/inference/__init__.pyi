from riesz.amortise.amortised import Amortised as Amortised
from riesz.amortise.amortised import DataSetFits as DataSetFits
from riesz.amortise.simulate import PriorSurrogate as PriorSurrogate
from riesz.density.engine import AbstractEngine as AbstractEngine
from riesz.density.engine import Engine as Engine
from riesz.density.marginal.linear import assimilate as assimilate
from riesz.density.marginal.linear import conditional_mixture as conditional_mixture
from riesz.density.marginal.linear import conditional_moments as conditional_moments
from riesz.density.relaxed.relaxed import Learned as Learned
from riesz.inference.table import check_engine as check_engine
from riesz.method.base import AbstractMethod as AbstractMethod

from .batch import fit_data_sets as fit_data_sets
