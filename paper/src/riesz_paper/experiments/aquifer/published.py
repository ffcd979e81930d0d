"""What the paper's Table 2 says, for comparison: its wells are others, only ratios compare."""

from functools import partial

from riesz.io.store.results import Row
from riesz_paper.running.task import Task

TABLE = {
    "GP (published)": (0.224, 0.041, 0.107),
    "DGP (published)": (0.193, 0.052, 0.081),
    "GP-D (published)": (0.160, 0.012, 0.044),
    "GP-DT (published)": (0.158, 0.001, 0.039),
}
"""Mean absolute error, two sds of it as printed, and mean squared error (Tait & Damoulas 2020)."""


def published_tasks() -> list[Task]:
    """As rows without a run: 202 wells of 1960-80 predict 242 of 1980-2000."""
    return [Task(identity(name), partial(published_row, name)) for name in TABLE]


def identity(name: str) -> Row:
    return {
        "method": name,
        "role": "published",
        "selected": False,
        "split": "paper",
        "quantity": "head",
        "subset": "all",
        "restart": 0,
    }


def published_row(name: str) -> Row:
    mae, two_sds, mse = TABLE[name]
    missing = dict.fromkeys(("nlpd", "crps", "coverage95", "seconds"))
    return {"mae": mae, "mse": mse, "mae_sd": two_sds / 2, "n": 242, **missing}
