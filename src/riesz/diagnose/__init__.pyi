from .calibration import Calibration as Calibration
from .simulation import sbc as sbc
from .surrogate import SurrogateError as SurrogateError
from .surrogate import surrogate_error as surrogate_error
from .taylor import TaylorTest as TaylorTest
from .taylor import taylor_test as taylor_test
