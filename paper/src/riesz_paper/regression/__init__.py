"""Measurements explained by what is known at their places, and by a field that obeys physics."""

from riesz_paper.regression.chain import Chain, chain
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.model import Regression, Structure, field_regression
from riesz_paper.regression.physical_field import Modes, modes_of

__all__ = [
    "Chain",
    "Covariates",
    "Modes",
    "Regression",
    "Structure",
    "chain",
    "field_regression",
    "modes_of",
]
