from .calibration import Calibration as Calibration
from .leave_one_out import LeaveOneOut as LeaveOneOut
from .leave_one_out import leave_one_out as leave_one_out
from .simulation import sbc as sbc
from .surrogate import SurrogateError as SurrogateError
from .surrogate import surrogate_error as surrogate_error
from .taylor import TaylorTest as TaylorTest
from .taylor import taylor_test as taylor_test
