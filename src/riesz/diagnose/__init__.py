"""Checks that users can run on their own problems."""

from riesz.diagnose.calibration import Calibration
from riesz.diagnose.sbc import sbc
from riesz.diagnose.surrogate_error import surrogate_error
from riesz.diagnose.taylor import TaylorTest, taylor_test
from riesz.posterior.checks import SurrogateError

__all__ = ["Calibration", "SurrogateError", "TaylorTest", "sbc", "surrogate_error", "taylor_test"]
