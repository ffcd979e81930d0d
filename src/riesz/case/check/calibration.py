"""What simulation-based calibration found, as a result file."""

from pathlib import Path

from riesz.case.file.problem import Case
from riesz.diagnose.calibration import Calibration
from riesz.io.store.results import results, write_results

RESULTS = "results.json"


def write_calibration(
    folder: Path, calibration: Calibration, case: Case, *, command: str, seed: int
) -> None:
    """Into a folder that is there: a row for each unknown number, the rest in the summary."""
    config = case.tables.model_dump(mode="json", exclude_none=True)
    content = results(command, config, seed, calibration.rows(), calibration.figures())
    write_results(folder / RESULTS, content)
