from riesz.engines.amortise.amortised import Amortised as Amortised
from riesz.engines.amortise.fits import DataSetFits as DataSetFits
from riesz.engines.amortise.simulate import PriorSurrogate as PriorSurrogate
from riesz.engines.conditional.assimilate import assimilated as assimilated
from riesz.engines.conditional.engine import Conditional as Conditional
from riesz.engines.conditional.linear import conditional_mixture as conditional_mixture
from riesz.engines.conditional.linear import conditional_moments as conditional_moments
from riesz.engines.nuts.engine import Nuts as Nuts
from riesz.engines.reduced.engine import Reduced as Reduced
from riesz.engines.relax.schedule import Annealed as Annealed
from riesz.engines.relax.schedule import Fixed as Fixed
from riesz.engines.relax.schedule import Learned as Learned

from .batch import fit_data_sets as fit_data_sets
