"""Pumping tests: what readings about a pumped well say of the aquifer, and what they miss."""

from riesz.pumping.closed_forms import hantush, superposed, theis
from riesz.pumping.fit import DRIFT, INDEPENDENT, TestFit, fit_test
from riesz.pumping.residuals import missing_physics
from riesz.pumping.tables import rates_in, read_readings
from riesz.pumping.well import Pumped, Readings

__all__ = [
    "DRIFT",
    "INDEPENDENT",
    "Pumped",
    "Readings",
    "TestFit",
    "fit_test",
    "hantush",
    "missing_physics",
    "rates_in",
    "read_readings",
    "superposed",
    "theis",
]
