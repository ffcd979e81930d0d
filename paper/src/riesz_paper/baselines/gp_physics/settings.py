"""How GP-D, GP-DT and their surrogate without physics are trained."""

import math
from dataclasses import dataclass

from riesz.errors import RieszError


@dataclass(frozen=True)
class GpPhysicsSettings:
    """Training, and priors in standard units: the wells' spread is one length, their values' one.

    Epsilon falls geometrically from the first to the last value within a cycle of epochs, then
    starts anew. An infinite one leaves the equation out. Inducing points must carry the fields:
    what they leave of the prior's variance is noise at every point, which no q can reduce, and
    noise in a diffusivity makes every slope of the surrogate cost.
    """

    num_epochs: int = 3000
    cycle: int = 1000
    first_epsilon: float = 0.1
    last_epsilon: float = 0.01
    learning_rate: float = 3e-3
    num_inducing: int = 50
    length: float | None = None  # of both kernels; None for a quarter of the domain's longest side
    sd: float = 1.0  # of the source, and of the logarithm of the diffusivity
    num_patches: int = 2
    patch_nodes: int = 16  # cost of an epoch grows in proportion
    num_draws: int = 1  # of the fields and the transport, in each epoch

    def __post_init__(self):
        for name in ("num_epochs", "cycle", "num_inducing", "num_patches", "num_draws"):
            if getattr(self, name) < 1:
                raise RieszError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if not 0 < self.last_epsilon <= self.first_epsilon:
            raise RieszError(
                f"epsilon goes from {self.first_epsilon} to {self.last_epsilon}: give positive "
                "values that do not grow, math.inf to leave the equation out."
            )
        if math.isinf(self.first_epsilon) != math.isinf(self.last_epsilon):
            raise RieszError("one epsilon is infinite: give two finite ones, or leave both out.")


PAPER = GpPhysicsSettings()
"""Supplement E of Tait & Damoulas (2020): the surrogate, 50 inducing points, Matern 5/2 kernels and
the schedule of epsilon. Units, kernel scales, optimiser and number of epochs are not in it."""
