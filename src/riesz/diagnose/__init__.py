"""Checks that users can run on their own problems."""

from riesz.diagnose.calibration import Calibration
from riesz.diagnose.simulation import sbc
from riesz.diagnose.taylor import TaylorTest, taylor_test
from riesz.infer.surrogate_error import SurrogateError, surrogate_error

__all__ = [
    "Calibration",
    "SurrogateError",
    "TaylorTest",
    "sbc",
    "surrogate_error",
    "taylor_test",
]
