"""The facts of a fit, from its posterior."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array, Float

from riesz.diagnose.summary import sampler_check
from riesz.posterior.checks import APPROXIMATE, EXACT, K_HAT, PARTLY, SAMPLED, WEIGHED, FitFacts
from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import MARGINAL, Posterior
from riesz.problem.description import equation_lines
from riesz.problem.linearity import linear_parts

NO_CURVES = (
    *("r_hat", "effective_draws", "tail_draws"),
    *("r_hat_along", "effective_draws_along", "tail_draws_along"),
    *("num_steps", "accept_probability", "step_size"),
)
"""Entries of a history that are no curve worth looking at."""

MOST_CURVES = 6


def fit_facts(posterior: Posterior) -> FitFacts:
    return FitFacts(
        engine=posterior.engine,
        method=method_of(posterior),
        equation=" ".join(equation_lines(posterior.problem.forward)),
        curves=curves_of(posterior.history),
        check=posterior.check or sampler_check(posterior),
        surrogate_error=posterior.surrogate_error,
    )


def method_of(posterior: Posterior) -> str:
    """What it means where a posterior comes without a check."""
    if posterior.density == MARGINAL:
        if not len(linear_parts(posterior.problem).others):
            return EXACT
        return WEIGHED if float(posterior.history.get("k_hat", np.inf)) <= K_HAT.bad else PARTLY
    return SAMPLED if isinstance(posterior.distribution, EmpiricalDraws) else APPROXIMATE


def curves_of(history: Mapping[str, Array]) -> dict[str, Float[np.ndarray, "line step"]]:
    """Curves of a training, or of chains: one line a chain."""
    result = {}
    for name, values in history.items():
        curve = np.asarray(values)
        is_curve = curve.ndim in (1, 2) and curve.shape[-1] > 1 and curve.dtype.kind == "f"
        if is_curve and name not in NO_CURVES:
            result[name] = np.atleast_2d(curve).astype(np.float32)
    return dict(list(result.items())[:MOST_CURVES])
