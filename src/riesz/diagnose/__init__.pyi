from riesz.comparison.results import Comparison as Comparison

from .arviz import to_arviz as to_arviz
from .calibration import Calibration as Calibration
from .criticism.findings import Finding as Finding
from .criticism.findings import Misfit as Misfit
from .criticism.predictive_checks import misfit as misfit
from .discretisation import MeshShift as MeshShift
from .discretisation import mesh_error as mesh_error
from .held_out import HeldOut as HeldOut
from .held_out import leave_one_out as leave_one_out
from .importance import SurrogateError as SurrogateError
from .importance import importance_check as importance_check
from .importance import surrogate_error as surrogate_error
from .importance import with_importance_check as with_importance_check
from .simulation import sbc as sbc
from .taylor import TaylorTest as TaylorTest
from .taylor import taylor_test as taylor_test
