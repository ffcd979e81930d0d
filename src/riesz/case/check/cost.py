"""What a fit will cost: rough numbers, to tell minutes from days before they are spent."""

from dataclasses import dataclass

from riesz.engines.base import AbstractEngine
from riesz.problem.problem import InverseProblem

SOLVE, GROWTH = 3e-7, 1.25
"""Seconds of a sparse solve by nodes, in the plane: 0.03 s at 10,000 nodes, on one core."""

BASE, COPIES = 800.0, 8.0
"""Megabytes of the program itself, and how many states each solve holds for its slope."""

MOST_NUMBERS = 500_000
"""In states that engines solve for at once."""


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


def cost_of(problem: InverseProblem, engine: AbstractEngine) -> Cost:
    nodes = problem.forward.space.mesh.num_nodes
    together = min(problem.num_coordinates, len(problem.observed))
    numbers = min(nodes * together, MOST_NUMBERS) + nodes * 200
    seconds = engine.compiling + engine.cost(SOLVE * nodes**GROWTH, problem)
    return Cost(seconds, BASE + COPIES * 8e-6 * numbers)
