"""`riesz demo`: the main job on built-in data."""

import shlex
from pathlib import Path

import typer

from riesz.cli import (
    FitSeedOption,
    JsonOption,
    OutOption,
    QuietOption,
    json_of,
    progress_bar,
    use_float64,
)

EXAMPLE = "Example: riesz demo --out demo-output"

OWN_DATA = """change a problem file and fit it again:
  riesz fit {out}/problem.toml --out {out}/mine
  riesz predict {out}/run --quantity value --stat mean,sd --cell 0.1 --out {out}/map.csv
with measurements of your own, the first command writes a problem file:
  riesz init measurements.csv outline.geojson --out problem.toml
  riesz fit problem.toml --out out/run"""


def register(app: typer.Typer) -> None:
    """Add the command to `riesz`."""
    app.command(epilog=EXAMPLE)(demo)


def demo(
    out: OutOption = Path("demo-output"),
    seed: FitSeedOption = 0,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the main job on built-in data: problem files, map, scores and report, in a minute."""
    use_float64()
    from riesz.io import (
        keep_programs,
        make_folder,
        markdown_table,
        results,
        write_bytes,
        write_results,
    )
    from riesz_demo.job import STAGES, run_demo

    keep_programs()
    command = shlex.join(["riesz", "demo", "--out", str(out), "--seed", str(seed)])
    make_folder(out)
    with progress_bar(not quiet) as bar:
        task = bar.add_task("demo", total=len(STAGES), terms="")

        def stage(name: str) -> None:
            bar.update(task, terms=name, completed=STAGES.index(name))

        rows = run_demo(out, seed=seed, stage=stage)
        bar.update(task, terms="", completed=len(STAGES))
    summary = {
        f"mae of {row['method']} ({row['role']}), by {row['knows']}": row["mae"] for row in rows
    }
    table = markdown_table(rows)
    write_bytes(out / "table.md", table.encode())
    write_results(out / "results.json", results(command, {"metal": "Cd"}, seed, rows, summary))
    if as_json:
        typer.echo(json_of({"out": str(out), **summary}))
    elif not quiet:
        typer.echo(f"predictions of samples that were held back, in mg/kg:\n\n{table}")
        typer.echo(f"written: {', '.join(sorted(p.name for p in out.iterdir()))} in {out}")
        typer.echo(OWN_DATA.format(out=shlex.quote(str(out))))
