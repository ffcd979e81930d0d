"""Simulation-based calibration of a problem file, and its result file."""

import shlex
from dataclasses import replace
from pathlib import Path

from riesz.amortise.engine import Amortise
from riesz.case.file.problem import Case
from riesz.case.options import CalibrationOptions, command_words
from riesz.diagnose.calibration import Calibration
from riesz.diagnose.simulation import sbc
from riesz.io.store.files import make_folder
from riesz.io.store.results import results, write_results
from riesz.plot.figure import save_figure
from riesz.plot.posterior import ranks_figure

NUM_DATA_SETS = 500
RESULTS, RANKS = "results.json", "ranks.png"


def calibrate_case(case: Case, options: CalibrationOptions) -> Calibration:
    """Fit data sets made up from the priors, and write what was found where `out` says."""
    options = replace(options, num_data_sets=options.num_data_sets or NUM_DATA_SETS)
    Amortise().check(case.problem)
    folder = None if options.out is None else make_folder(Path(options.out))
    given = {"num_data_sets": options.num_data_sets, "seed": options.seed}
    result = sbc(case.problem, **given)
    if folder is not None:
        words = ["riesz", "check", str(case.path), "--calibrate", *command_words(options, *given)]
        config = case.tables.model_dump(mode="json", exclude_none=True)
        content = results(shlex.join(words), config, options.seed, result.rows(), result.figures())
        write_results(folder / RESULTS, content)
        save_figure(folder / RANKS, ranks_figure(result))
    return result
