from .correlated_residual import LocalEffect as LocalEffect
from .gaussian_process import LogGP as LogGP
from .gaussian_process import process_in_time as process_in_time
from .kernels import RBF as RBF
from .kernels import LearnedScales as LearnedScales
from .kernels import Matern12 as Matern12
from .kernels import Matern52 as Matern52
