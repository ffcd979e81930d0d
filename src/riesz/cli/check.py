"""`riesz check`: what was understood of a problem file, what its priors expect, and calibration."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riesz.cli.options import (
    CheckJsonOption,
    FitSeedOption,
    ProblemArgument,
    compile_quickly,
    json_of,
    keep_compiled,
    use_float64,
)
from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.case.file.problem import Case


def check(
    problem: ProblemArgument,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Fit data made up from the prior: are posteriors right?"),
    ] = False,
    data_sets: Annotated[
        int | None,
        typer.Option("--data-sets", help="So many for --calibrate [default: 500].", min=20),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for results.json and ranks.png of --calibrate."),
    ] = None,
    predictive: Annotated[
        bool,
        typer.Option("--predictive", help="Solve for draws of the prior: are they like the data?"),
    ] = False,
    draw: Annotated[
        Path | None, typer.Option("--draw", help="Draw them: a .png file.", metavar="FILE")
    ] = None,
    seed: FitSeedOption = 0,
    as_json: CheckJsonOption = False,
) -> None:
    """Read a problem file and say in plain words what was understood."""
    use_float64()
    keep_compiled()
    if not calibrate:
        compile_quickly()
    from riesz.case.check.words import case_numbers, describe_case
    from riesz.case.file.problem import read_problem

    check_drawing(draw)
    for option, value in (("--out", out), ("--data-sets", data_sets)):
        if value is not None and not calibrate:
            raise RieszError(f"{option} is for --calibrate: add --calibrate, or leave it out.")
    case = read_problem(problem)
    if not calibrate:
        expected = expected_by_priors(case, seed, draw) if predictive or draw else []
        if as_json:
            typer.echo(json_of(case_numbers(case) | {"prior_predictive": expected}))
            return
        typer.echo("\n".join([describe_case(case), *expected]))
        return
    from riesz.case.check.calibration import NUM_DATA_SETS, calibrate_case

    found = calibrate_case(case, out, num_data_sets=data_sets or NUM_DATA_SETS, seed=seed)
    typer.echo(json_of({"rows": found.rows(), **found.figures()}) if as_json else str(found))


def check_drawing(path: Path | None) -> None:
    """Raise, before any work, where a picture could not be written."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise RieszError(f"--draw is {path}: give a file that ends in .png.")
    if not path.absolute().parent.is_dir():
        raise RieszError(f"{path} cannot be written: there is no folder {path.parent}.")


def expected_by_priors(case: "Case", seed: int, draw: Path | None) -> list[str]:
    """What the priors predict, in words, and drawn where that is wanted."""
    from riesz.case.check.predictive import prior_predictive

    found = prior_predictive(case, seed=seed)
    if draw is None:
        return found.lines()
    from riesz.case.check.predictive import prior_predictive_figure
    from riesz.plot.figure import save_figure

    save_figure(draw, prior_predictive_figure(case, found))
    return [*found.lines(), f"written: {draw}"]
