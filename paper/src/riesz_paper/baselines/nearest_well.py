"""The value of the nearest place that was measured: what every method has to beat."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import Draws, Method, Values, normal_draws


@dataclass(frozen=True, eq=False)
class NearestWell:
    """Measured places, and how far neighbours differ."""

    points: Float[np.ndarray, "well 2"]
    target: Values
    sd: float

    def __call__(self, at: Covariates) -> Draws:
        _, nearest = KDTree(self.points).query(at.points)
        return normal_draws(self.target[nearest], np.full(len(at), self.sd))


def nearest_well() -> Method:
    """Normal about the nearest value; its sd is that of leaving out one place after the other."""

    def train(training: Covariates, target: Values, *, seed: int) -> NearestWell:
        del seed
        check_target(training, target)
        # The nearest place to each is itself, or one that shares its coordinates.
        nearest = np.asarray(KDTree(training.points).query(training.points, k=2)[1])
        itself = nearest[:, 0] == np.arange(len(training))
        other = np.where(itself, nearest[:, 1], nearest[:, 0])
        differences = target - target[other]
        return NearestWell(training.points, target, float(np.sqrt(np.mean(differences**2))))

    return train
