"""Figures of the paper's Table 1 (Tait & Damoulas 2020): mean absolute errors and their sds."""

from collections.abc import Sequence
from functools import partial

from riesz.datasets.jura import SECONDARIES
from riesz.io.store.results import Row
from riesz_paper.experiments.jura.cases import VALIDATION
from riesz_paper.running.task import Task

METHODS = ("GPDK (published)", "VAE (published)", "VAE-DT (published)", "VAE-NLD (published)")
ERRORS = {
    "Cd": ((0.451, 0.013), (0.569, 0.115), (0.478, 0.048), (0.549, 0.173)),
    "Cu": ((7.168, 0.347), (7.752, 0.341), (7.218, 0.315), (7.625, 0.201)),
    "Pb": ((10.101, 0.284), (15.69, 0.294), (10.058, 0.297), (9.722, 0.251)),
    "Co": ((1.755, 0.090), (1.820, 0.102), (1.801, 0.173), (1.692, 0.083)),
}


def published_tasks(metals: Sequence[str]) -> list[Task]:
    """Rows as if by a run of theirs; of restarts they tell mean and sd only."""
    return [
        Task(
            {
                "method": method,
                "role": "published",
                "selected": False,
                "metal": metal,
                "secondaries": ", ".join(SECONDARIES[metal]),
                "split": VALIDATION,
                "restart": None,
            },
            partial(published_row, *figures),
        )
        for metal in metals
        for method, figures in zip(METHODS, ERRORS[metal], strict=True)
    ]


def published_row(mean: float, sd: float) -> Row:
    return {"mae": mean, "crps": None, "coverage95": None, "seconds": None, "mae_sd": sd}
