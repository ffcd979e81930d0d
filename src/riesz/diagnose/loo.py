r"""How well each observation would have been foretold from all others, without a fit for each.

Draws of the posterior, weighed by $1 / p(y_i \mid y_{-i}, \theta)$, are draws of the posterior
without the i-th observation; the weights are smoothed, and the shape $\hat k$ of their tail says
whether they can be relied on (PSIS-LOO; Vehtari, Gelman & Gabry 2017). Where noise is shared, what
an observation scatters about is known in part from the others (Bürkner, Gabry & Vehtari 2021).
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from riesz.errors import RieszError
from riesz.observe.joint import Joint
from riesz.observe.likelihood import AbstractLikelihood
from riesz.posterior.posterior import Posterior
from riesz.posterior.psis import smoothed_weights
from riesz.prediction.sampling import quantity_draws
from riesz.problem.problem import InverseProblem

NUM_DRAWS = 2000

UNRELIABLE = 0.7
"""Shape of the tail from which on weights are not to be trusted."""


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The log-density of each observation given all others, and how far weights can be trusted."""

    log_densities: Float[np.ndarray, " sensor"]
    k_hat: Float[np.ndarray, " sensor"]

    @property
    def total(self) -> float:
        """The expected log predictive density (elpd) of all observations."""
        return float(self.log_densities.sum())

    @property
    def error(self) -> float:
        """The standard error of the total, over observations."""
        return float(np.sqrt(len(self.log_densities)) * self.log_densities.std(ddof=1))

    @property
    def unreliable(self) -> Bool[np.ndarray, " sensor"]:
        """Observations that hold the posterior where it is: without them it would be elsewhere."""
        return self.k_hat > UNRELIABLE


def leave_one_out(
    posterior: Posterior, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> LeaveOneOut:
    """From draws of a posterior and their states: a solve each, however many observations."""
    logs = quantity_draws(posterior, pointwise, num_draws=num_draws, seed=seed)
    lost = np.isnan(logs).any(axis=1)
    if lost.mean() > 0.5:
        raise RieszError(
            f"{int(lost.sum())} of {len(lost)} draws have no state: the equation has no solution "
            "there. Look for priors that allow impossible coefficients."
        )
    finite = logs[~lost]
    result = [smoothed_weights(-own) for own in finite.T]
    weights = np.stack([one.weights for one in result], axis=1)
    most = finite.max(axis=0)
    densities = np.log(np.sum(weights * np.exp(finite - most), axis=0)) + most
    return LeaveOneOut(densities, np.array([one.k_hat for one in result]))


def pointwise(
    key: PRNGKeyArray, problem: InverseProblem, state: Float[Array, " _"], z: PyTree
) -> Float[Array, " sensor"]:
    """The log-density of each observation given the state, and where noise is shared the others."""
    predicted, likelihood = problem.predict(state, z), problem.likelihood
    if likelihood.is_independent:
        return own_logs(likelihood, problem.observed, predicted, z)
    if not likelihood.is_normal:
        raise RieszError(
            "observations cannot be left out one by one where they share noise that is not normal: "
            f"{likelihood.describe()}."
        )
    factor = likelihood.factor(predicted, z)
    white = factor.white(jnp.eye(len(predicted), dtype=predicted.dtype))
    precision = jnp.sum(white**2, axis=0)
    gap = problem.observed - likelihood.mean(predicted, z)
    apart = white.T @ (white @ gap) / precision  # of each from what the others say of it
    return 0.5 * (jnp.log(precision / (2 * jnp.pi)) - precision * apart**2)


def own_logs(
    likelihood: AbstractLikelihood,
    observed: Float[Array, " sensor"],
    predicted: Float[Array, " sensor"],
    z: PyTree,
) -> Float[Array, " sensor"]:
    """The log-density of each observation by itself."""
    if isinstance(likelihood, Joint):
        cut = zip(likelihood.cut(observed), likelihood.cut(predicted), strict=True)
        each = [own_logs(one, seen, said, z) for (one, seen), (_, said) in cut]
        return jnp.concatenate(each)
    return jnp.asarray(likelihood.distribution(predicted, z).log_prob(observed))
