r"""A random forest that predicts distributions.

At a place each tree's leaf holds some of the training targets; all trees together weigh them, and
draws are targets by these weights. Source: Meinshausen (2006), Quantile regression forests.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.ensemble import RandomForestRegressor

from riesz_paper.regression.covariates import Covariates, check_target
from riesz_paper.regression.method import NUM_DRAWS, Draws, Method, Values
from riesz_paper.regression.sites import Encoding, encoding_of

NUM_TREES = 500
LEAST_IN_LEAF = 3

Leaves = Int[np.ndarray, "place tree"]


@dataclass(frozen=True, eq=False)
class Forest:
    """Trained trees, with the leaves that the training places fall into."""

    trees: RandomForestRegressor
    encoding: Encoding
    target: Values
    leaves: Leaves
    seed: int

    def __call__(self, at: Covariates) -> Draws:
        found = self.trees.apply(features(self.encoding, at))
        weights = leaf_weights(self.leaves, found)
        return drawn(np.random.default_rng(self.seed), weights, self.target)


def random_forest(num_trees: int = NUM_TREES) -> Method:
    """Trees over coordinates, numbers and categories, for a quantity in its own units."""

    def train(training: Covariates, target: Values, *, seed: int) -> Forest:
        check_target(training, target)
        encoding = encoding_of(training)
        known = features(encoding, training)
        trees = RandomForestRegressor(
            num_trees, min_samples_leaf=LEAST_IN_LEAF, random_state=seed % 2**32
        ).fit(known, target)
        return Forest(trees, encoding, target, trees.apply(known), seed)

    return train


def features(encoding: Encoding, at: Covariates) -> Float[np.ndarray, "place feature"]:
    """Coordinates, numbers on a log scale, which trees do not mind, and one column a level."""
    sites = encoding(at)
    return np.concatenate([sites.points, sites.numbers, *sites.groups], axis=1)


def leaf_weights(
    training: Leaves, at: Int[np.ndarray, "other tree"]
) -> Float[np.ndarray, "other place"]:
    """How much each training place counts: its share of the leaf, averaged over trees."""
    weights = np.zeros((len(at), len(training)))
    for known, found in zip(training.T, at.T, strict=True):
        same = found[:, None] == known[None, :]
        weights += same / same.sum(axis=1, keepdims=True)
    return weights / training.shape[1]


def drawn(
    generator: np.random.Generator, weights: Float[np.ndarray, "other place"], target: Values
) -> Float[np.ndarray, "draw other"]:
    chosen = [generator.choice(target, NUM_DRAWS, p=row / row.sum()) for row in weights]
    return np.stack(chosen, axis=1)
