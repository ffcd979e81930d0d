r"""Predictions where covariates are not known either.

Other quantities are predicted too, one after the other, each from those before it:

$$p(s_1, \dots, s_m, y \mid x) = p(s_1 \mid x)\,p(s_2 \mid s_1, x) \cdots p(y \mid s, x),$$

every factor a model of the same family. Draws run down the chain, so that what is not known of a
covariate is carried into all that follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
from jaxtyping import Float

from riesz.errors import RieszError
from riesz.posterior.sobol import spread_normals
from riesz_paper.regression.covariates import Covariates
from riesz_paper.regression.method import Draws, Values
from riesz_paper.regression.model import Regression, Structure, field_regression, freedom_of
from riesz_paper.regression.physical_field import Modes


@dataclass(frozen=True, eq=False)
class Chain:
    """Models by the quantity that each predicts, the one of interest last."""

    models: dict[str, Regression]

    @property
    def target(self) -> str:
        return list(self.models)[-1]

    def draws(self, at: Covariates, *, num_draws: int, seed: int) -> dict[str, Draws]:
        """Of every quantity as it would be measured, jointly at each place.

        All places share the same evenly spread random numbers, so that maps of means, sds and
        probabilities are not speckled; nothing is said of how places go together.
        """
        normals = spread_normals(seed, num_draws, 2 * len(self.models))[:, :, None]
        found: dict[str, Draws] = {}
        for place, (name, model) in enumerate(self.models.items()):
            known = np.zeros((num_draws, len(at), 0))
            if found:
                known = np.log(np.stack(list(found.values()), axis=2))
            mean, sd = model.log_moments_given(at, known)
            unknown, luck = normals[:, 2 * place], normals[:, 2 * place + 1]
            noise = model.noise * with_tails(luck, freedom_of(model.structure))
            found[name] = np.exp(mean + sd * unknown + noise)
        return found


def chain(
    training: Covariates,
    target: Values,
    name: str,
    *,
    structure: Structure,
    modes: Modes | None,
    seed: int = 0,
) -> Chain:
    """Models for the numbers among the covariates, in their order, and for the target."""
    if name in training.numbers:
        raise RieszError(f"{name} is both the target and a covariate: leave it out of those.")
    train = field_regression(structure, modes)
    models = {}
    names = tuple(training.numbers)
    for place, own in enumerate(names):
        known = with_only(training, names[:place])
        models[own] = train(known, training.numbers[own], seed=seed)
    models[name] = train(training, target, seed=seed)
    return Chain(models)


def with_tails(
    normals: Float[np.ndarray, "draw 1"], freedom: float | None
) -> Float[np.ndarray, "draw 1"]:
    """Standard normals, or the numbers of Student's t at their levels."""
    if freedom is None:
        return normals
    return scipy.special.stdtrit(freedom, scipy.special.ndtr(normals))


def with_only(covariates: Covariates, names: Sequence[str]) -> Covariates:
    numbers = {name: covariates.numbers[name] for name in names}
    return Covariates(covariates.points, numbers, covariates.categories)


def summary_of(draws: Draws, threshold: float) -> dict[str, Float[np.ndarray, " place"]]:
    """What a map shows: mean, sd, and the probability to exceed a threshold."""
    return {
        "mean": draws.mean(axis=0),
        "sd": draws.std(axis=0),
        "exceeds": (draws > threshold).mean(axis=0),
    }
