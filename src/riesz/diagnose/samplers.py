"""What a sampler tells of itself: whether its chains agree, and what its draws are worth."""

from dataclasses import dataclass

import numpy as np

from riesz.posterior.family import EmpiricalDraws
from riesz.posterior.posterior import Posterior


@dataclass(frozen=True)
class SamplerCheck:
    """Over all coordinates the worst agreement of chains, and the fewest effective draws."""

    num_chains: int
    num_draws: int
    r_hat: float
    effective_draws: float
    divergences: int

    def __str__(self) -> str:
        return (
            f"{self.num_chains} chain{'' if self.num_chains == 1 else 's'} of {self.num_draws} "
            f"draws by exact solves: r_hat at most {self.r_hat:.3f} (1 where chains agree), worth "
            f"at least {self.effective_draws:.0f} independent draws, {self.divergences} diverged"
        )


def sampler_check(posterior: Posterior) -> SamplerCheck | None:
    """Of a posterior by draws whose history has it."""
    history = posterior.history
    if not isinstance(posterior.distribution, EmpiricalDraws) or "r_hat" not in history:
        return None
    num_chains, num_draws = history["diverging"].shape
    return SamplerCheck(
        num_chains=num_chains,
        num_draws=num_draws,
        r_hat=float(np.max(np.asarray(history["r_hat"]))),
        effective_draws=max(1.0, float(np.min(np.asarray(history["effective_draws"])))),
        divergences=int(np.sum(np.asarray(history["diverging"]))),
    )
