"""Covariates and a field: which way of the two predicts better, and what does it owe to what?

Sevenfold cross-validation on the 259 training samples of the Jura; no validation sample is read.
Held against each other are the paper's field regression as its settings were selected, a Gaussian
process of places and covariates, and problem files as `riesz init --covariates` writes them: as
they were before logarithms of covariates and local effects, with the former, and with both.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

NUM_FOLDS = 7  # 259 samples in folds of one size: one compilation
MAX_EDGE = 0.4  # km: about 350 nodes, finer than the smooth field of the file needs
METALS, ONLY = "Cd,Cu,Pb,Co", ""
"""By commas, and what the names of methods hold."""

FILES = {
    "file, as it was": ("log_covariates", "local"),
    "file, logged, not local": ("local",),
    "file, logged and local": (),
    "file, logged, local and curved": (),
}
"""Problem files by the keys that are taken out of what `init` writes."""


def written(folder: Path, name: str, case, training) -> Path:
    """A table of samples, with the problem file of a fold beside it or not."""
    import csv

    covariates, target = case.covariates(training), case.target(training)
    columns = {"x_km": training.points[:, 0], "y_km": training.points[:, 1], case.metal: target}
    columns |= {**covariates.numbers, **covariates.categories}
    with (folder / name).open("w", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return folder / name


def problem_file(folder: Path, table: Path, case, without: tuple[str, ...]) -> str:
    """What `init` writes for all training samples: scales of its priors are rounded to 2 digits."""
    from riesz.case.options import InitOptions
    from riesz.case.start.starter import starter

    names = (*case.secondaries, "landuse", "rock")
    asked = InitOptions(value=case.metal, covariates=names, log=True)
    text = starter(table, folder, asked).text
    text = text.replace('local = "auto"', "local = true")
    text = re.sub(r"max_edge = \S+", f"max_edge = {MAX_EDGE}", text)
    return "".join(
        line for line in text.splitlines(keepends=True) if line.split(" ")[0] not in without
    )


class FromFile:
    """The method of a problem file: fitted to the samples of a fold, it predicts the others."""

    def __init__(self, case, training, without, *, curved):
        from riesz.case.file.problem import read_case

        self.case, self.folder = case, Path(tempfile.mkdtemp())
        table = written(self.folder, "all.csv", case, training)
        text = problem_file(self.folder, table, case, without)
        path = self.folder / "all.toml"
        path.write_text(text)
        every = read_case(path)
        self.mesh, spread = every.coarse, float(every.prepared.values.std())
        # Numbers that would differ from fold to fold would be compiled for each.
        scales = f"effect_sd = {spread:.2g}"
        scales += "\ncurved = true" if curved else ""
        if "local" not in without:
            scales += f"\nlocal_sd = {spread / 2:.2g}\nlocal_range = 0.15"
        self.text = text.replace("all.csv", "fold.csv").replace("[noise]", f"{scales}\n\n[noise]")
        self.first = None

    def draws(self, training, left_out):
        import jax
        import numpy as np

        import riesz as rz
        from riesz.case.data.covariates import effect_design, every_encoding
        from riesz.case.file.problem import read_case
        from riesz.prediction.predict import new_places

        written(self.folder, "fold.csv", self.case, training)
        path = self.folder / "fold.toml"
        path.write_text(self.text)
        case = read_case(path, coarse=self.mesh)
        problem = case.problem
        if self.first is None or len(jax.tree.leaves(problem)) != len(jax.tree.leaves(self.first)):
            self.first = problem
        # Words that name the same differ by rounded scales, which would be compiled again.
        problem = jax.tree.unflatten(jax.tree.structure(self.first), jax.tree.leaves(problem))
        posterior = rz.fit(problem, rz.Laplace(), density=rz.Marginal(), progress=False)
        names = case.tables.observations
        encodings = every_encoding(case.prepared, names.log_covariates, curved=names.curved)
        found = self.case.covariates(left_out)
        known = {
            **found.numbers,
            **{name: list(words) for name, words in found.categories.items()},
        }
        design = effect_design(path, encodings, known)
        drawn = {"num_draws": 400, "seed": 1, "together": False}
        there = new_places(posterior, left_out.points, design, **drawn)
        return np.exp(there.new_measurements(slice(None)))


class Trained:
    """A method of the paper's table."""

    def __init__(self, case, method):
        self.case, self.method = case, method

    def draws(self, training, left_out):
        predict = self.method(self.case.covariates(training), self.case.target(training), seed=0)
        return predict(self.case.covariates(left_out))


def methods_for(case, samples, training) -> dict:
    from riesz_paper.baselines.gaussian_process import additive_log_gp
    from riesz_paper.experiments.jura.cases import modes_around
    from riesz_paper.experiments.jura.settings import frozen_choices
    from riesz_paper.regression.model import field_regression

    structure = frozen_choices()[case].structure
    return {
        "field regression, as selected": lambda: Trained(
            case, field_regression(structure, modes_around(samples))
        ),
        "additive GP": lambda: Trained(case, additive_log_gp()),
    } | {
        name: lambda name=name, without=without: FromFile(
            case, training, without, curved="curved" in name
        )
        for name, without in FILES.items()
    }


def scored(case, name: str, method, training) -> dict:
    import numpy as np

    from riesz_paper.experiments.jura.settings import fold_of
    from riesz_paper.running.scores import absolute_errors, crps, is_inside

    fold = fold_of(len(training), NUM_FOLDS, 0)
    scores = np.zeros((3, len(training)))
    start = time.perf_counter()
    for left_out in range(NUM_FOLDS):
        test = fold == left_out
        truth = case.target(training.subset(test))
        draws = method.draws(training.subset(~test), training.subset(test))
        for row, score in zip(scores, (absolute_errors, crps, is_inside), strict=True):
            row[test] = score(draws, truth)
    return {
        "metal": case.metal,
        "covariates": case.inputs,
        "method": name,
        "mae": float(scores[0].mean()),
        "crps": float(scores[1].mean()),
        "coverage95": float(scores[2].mean()),
        "seconds": round(time.perf_counter() - start, 1),
        "errors": np.round(scores[0], 4).tolist(),
    }


def summary_of(rows: list[dict]) -> dict:
    """Differences of the errors from those of field regression, with standard errors."""
    import numpy as np

    ours = {row["metal"]: row for row in rows if row["method"].startswith("field")}
    summary = {}
    for row in rows:
        if row["metal"] not in ours or row is ours[row["metal"]]:
            continue
        apart = np.subtract(row["errors"], ours[row["metal"]]["errors"])
        error = apart.std(ddof=1) / len(apart) ** 0.5
        name = f"{row['metal']}, {row['method']}: MAE minus that of field regression"
        summary[name] = f"{apart.mean():+.3g} +- {error:.2g}"
    return summary


SMOKE = {"NUM_FOLDS": 2, "MAX_EDGE": 3.0, "METALS": "Cd", "ONLY": "file, as it was"}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    from bench import parser_of, save

    parser = parser_of(globals(), "results/bench-covariates.json")
    parser.add_argument("--metals", default=METALS, help="by commas")
    parser.add_argument("--methods", default=ONLY, help="only those whose name holds this text")
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    from riesz.datasets.jura import jura
    from riesz.io.store.results import read_results
    from riesz_paper.experiments.jura.cases import CASES

    samples = jura()
    training = samples.subset(samples.is_training)
    rows = read_results(options.out)["rows"] if options.out.exists() else []
    for metal in options.metals.split(","):
        case = [c for c in CASES if c.metal == metal and c.categories][-1]
        for name, method in methods_for(case, samples, training).items():
            if options.methods not in name:
                continue
            row = scored(case, name, method(), training)
            print({key: value for key, value in row.items() if key != "errors"}, flush=True)
            same = (row["metal"], row["method"])
            rows = [old for old in rows if (old["metal"], old["method"]) != same] + [row]
            config = {"folds": NUM_FOLDS, "max_edge": MAX_EDGE}
            save(options.out, config, 0, rows, summary_of(rows))


if __name__ == "__main__":
    main()
