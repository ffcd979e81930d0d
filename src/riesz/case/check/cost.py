"""What a fit will cost: rough numbers, to tell minutes from days before they are spent."""

from dataclasses import dataclass

from riesz.problem.problem import InverseProblem

SOLVE, GROWTH = 3e-7, 1.25
"""Seconds of a sparse solve by nodes, in the plane: 0.03 s at 10,000 nodes, on one core."""

GRADIENT = 3.0
"""Solves that a log-density with its slope costs."""

COMPILING = {"conditional": 40.0, "laplace": 60.0, "nuts": 40.0, "emulate": 120.0, "relax": 120.0}
"""Seconds in which nothing is computed yet."""

BASE, COPIES = 800.0, 8.0
"""Megabytes of the program itself, and how many states each solve holds for its slope."""

MOST_NUMBERS = 500_000
"""In states that engines solve for at once."""

TRAINING = 0.02
"""Seconds of a training step by mini-patches, on any mesh, for ten unknown numbers."""


@dataclass(frozen=True)
class Cost:
    """Seconds on two cores, and megabytes; within a factor of about three."""

    seconds: float
    megabytes: float

    def __str__(self) -> str:
        return (
            f"roughly {duration(self.seconds)} on two cores and {self.megabytes / 1000:.1f} GB of "
            "memory; a guess from the sizes, right within a factor of about three"
        )


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(10 * round(seconds / 10), 10)} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"


def cost_of(problem: InverseProblem, engine: str) -> Cost:
    """For the default settings of an engine."""
    nodes, size = problem.forward.space.mesh.num_nodes, problem.num_coordinates
    solve = SOLVE * nodes**GROWTH
    together = min(size, len(problem.observed))
    work = {
        # A factorisation, a cheap solve for each sensor or unknown, and draws that are solved for.
        "conditional": solve * (60 * (1 + together / 10) + 1400),
        "laplace": solve * (GRADIENT * 20 * (1 + size / 10) + 1400),
        # Trees of about 15 steps, 1,000 draws in each of two chains.
        "nuts": solve * GRADIENT * 15 * 4000,
        "emulate": TRAINING * 5000 * (1 + size / 10) + solve * 1000,
        "relax": TRAINING * 5000 * (1 + size / 10) + solve * 1000,
    }
    numbers = min(nodes * together, MOST_NUMBERS) + nodes * 200
    return Cost(COMPILING[engine] + work[engine], BASE + COPIES * 8e-6 * numbers)
