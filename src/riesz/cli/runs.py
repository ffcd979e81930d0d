"""What `riesz predict`, `report`, `next` and `compare` make of the posteriors of runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from riesz.case.options import CompareOptions, NextOptions, PredictOptions, ReportOptions
from riesz.cli.options import (
    Answer,
    CheckJsonOption,
    QuietOption,
    json_of,
    keep_compiled,
    use_float64,
    use_one_thread,
    with_options,
)

SHOWN_RANGES = 12

RunArgument = Annotated[
    Path, typer.Argument(help="A run folder, made by riesz fit.", metavar="RUN")
]


@with_options
def predict_run(
    run: RunArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="The file: .csv, .tif, .gpkg, .nc or .vtu; .png for hydrographs."
        ),
    ],
    options: PredictOptions,
) -> Answer:
    """Map a quantity under the posterior of a run, at points or on a grid."""
    use_float64()
    if not (options.at is None and options.changes is None):
        keep_compiled()
    from riesz.case.run.folder import read_run

    numbers = read_run(run).predict(**vars(options)).save(out)
    # Also to who wants no words: a map for other covariates than the places have would be wrong.
    if numbers["holds_for"]:
        typer.echo(f"note: {numbers['holds_for']}", err=True)
    dates = len(numbers["dates"])
    where = f"{numbers['places']} places" + (f" and {dates} dates" if dates else "")
    shown = list(numbers["ranges"].items())[:SHOWN_RANGES]
    lines = [f"{name}: {low:.6g} .. {high:.6g} at {where}" for name, (low, high) in shown]
    lines.append(f"written: {', '.join(numbers['files'])}")
    return Answer(numbers, lines, numbers["notes"])


@with_options
def report_run(run: RunArgument, options: ReportOptions) -> Answer:
    """Write one self-contained web page: maps, parameters, fit, and how far to trust it."""
    use_float64()
    from riesz.case.run.folder import read_run

    answer = read_run(run).report(**vars(options))
    written = f"written: {answer['out']}, {answer['bytes'] / 1e6:.1f} MB; open it in a browser"
    return Answer(answer, [f"trust: {answer['trust']}", written])


@with_options
def next_command(run: RunArgument, options: NextOptions) -> Answer:
    """Say where one more measurement would tell the most about a quantity, and how much."""
    use_float64()
    if options.at is not None or options.num_draws is not None:
        keep_compiled()
    from riesz.case.run.folder import read_run

    answer = read_run(run).next(**vars(options))
    return Answer(answer, next_lines(answer), answer["notes"])


def next_lines(answer: dict[str, Any]) -> list[str]:
    """What was found, in words."""
    when = f" on {answer['date']}" if answer["date"] else ""
    result = [
        f"{answer['words']}{when}: {answer['before']:.4g}; {answer['candidates']} candidates, "
        f"noise sd {answer['noise_sd']:.4g}, by linear regression over {answer['draws']} draws"
    ]
    for place in answer["places"]:
        x, y, *date = list(place.values())[1:-4]
        where = f"({x:.10g}, {y:.10g})" + (f" on {date[0]}" if date else "")
        result.append(
            f"{place['rank']}. {where}: {100 * place['share']:.3g} % less by itself "
            f"(+- {100 * place['error']:.2g} %), {100 * place['cumulative']:.3g} % with those above"
        )
    return [*result, *([f"written: {', '.join(answer['files'])}"] if answer["files"] else [])]


@with_options
def compare_command(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders of the same observations.", metavar="RUN..."),
    ],
    options: CompareOptions,
    quiet: QuietOption = False,
    as_json: CheckJsonOption = False,
) -> None:
    """Compare runs by what they predict of left-out data; kriging and a plane stand beside."""
    use_one_thread()
    use_float64()
    keep_compiled()
    from riesz.case.run.compare import compare_runs

    result = compare_runs(runs, **vars(options))
    if not quiet and not as_json:
        typer.echo(str(result))
        if options.out is not None:
            typer.echo(f"written: {options.out}")
    if as_json:
        content = {
            "models": result.rows(),
            "pairs": list(result.pairs()),
            "verdict": list(map(str, result.verdict)),
        }
        typer.echo(json_of(content))
