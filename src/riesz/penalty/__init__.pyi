from .gram import Gram as Gram
from .gram import dual_norm as dual_norm
from .penalty import exact_penalty as exact_penalty
from .schwarz import schwarz_norm as schwarz_norm
