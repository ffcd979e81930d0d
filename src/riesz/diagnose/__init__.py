"""Checks that users can run on their own problems."""

from riesz.diagnose.calibration import Calibration
from riesz.diagnose.sbc import sbc
from riesz.diagnose.surrogate_error import SurrogateError, surrogate_error
from riesz.diagnose.taylor import TaylorTest, taylor_test

__all__ = [
    "Calibration",
    "SurrogateError",
    "TaylorTest",
    "sbc",
    "surrogate_error",
    "taylor_test",
]
