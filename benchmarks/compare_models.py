"""Does `riesz compare` say of the Jura and of the plain what their pages say?

Problem files of both are fitted and compared, with kriging and a plane beside them. Each claim of a
page is one about two models: one is better, or they cannot be told apart (the 95 % interval of
their difference holds zero). The samples that the Jura's page asks for lie among the others, as one
left-out sample does; those of the plain's split D are blocks. Rows are of both ways. RIESZ_DATA
must hold esrp.
"""

import csv
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from bench import parser_of, save

DATA = ("jura-Cd", "jura-Pb", "plain")
BETTER, TIE = "better", "tie"
ONE, BLOCKS = "one at a time", "by blocks"

PLAIN = """
[domain]
outline = "boundary_simplified.geojson"
max_edge = 8_000

[observations]
file = "split_D.csv"
where = { role = "test" }
x = "x_m"
y = "y_m"
value = "head_ft"
unit = "ft"

[noise]
sd = "noise"

[equation]
diffusion = 1.0
source = "source"

[boundary.outer]
value = "rim"

[unknowns.source]
prior = "gp"
mean = 0.0
sd = 7e-7
length_scale = 12_000
inducing = 120
learn_scales = true

[unknowns.rim]
prior = "boundary-gp"
mean = 4440
sd = 140
length_scale = 40_000
trend_sd = 700
inducing = 30
learn_scales = true

[unknowns.noise]
prior = "lognormal"
median = 3.5
log_sd = 1.0

[engine]
name = "laplace"
density = "marginal"
"""
"""The model `conditional-d` of the steady experiment, its source by fewer numbers."""


class Claim(NamedTuple):
    page: str
    words: str
    data: str
    model: str
    other: str
    expected: str
    how: str  # as the page asked: among other samples, or beyond them
    score: str = "log_density"


NO_EQUATION = "the equation of the field: cannot be told"
CLAIMS = (
    Claim("jura.md", NO_EQUATION, "jura-Cd", "metals", "kriging with covariates", TIE, ONE),
    Claim("jura.md", "a field makes no difference for cadmium", "jura-Cd",
          "kriging with covariates", "plane with covariates", TIE, ONE),
    Claim("jura.md", NO_EQUATION, "jura-Pb", "metals", "kriging with covariates", TIE, ONE),
    Claim("jura.md", "a field on the map helps for lead", "jura-Pb", "metals",
          "plane with covariates", BETTER, ONE),
    Claim("jura.md", "what neighbours share is what counts", "jura-Pb", "metals", "no-local",
          BETTER, ONE),
    Claim("aquifer.md", "split A: physics is not needed to interpolate", "plain", "equation",
          "kriging", TIE, ONE),
    Claim("aquifer.md", "split D: conditional-d and the GP with a linear mean are alike", "plain",
          "equation", "kriging", TIE, BLOCKS),
    Claim("aquifer.md", "split D: and so they are in CRPS", "plain", "equation", "kriging", TIE,
          BLOCKS, "crps"),
)  # fmt: skip


def jura_problem(metal: str, secondaries: tuple[str, ...], *, local: bool) -> str:
    """The demo's file for another metal, with others for covariates."""
    from importlib.resources import files

    text = files("riesz_demo").joinpath("problem.toml").read_text()
    names = json.dumps(list(secondaries))
    lines = []
    for line in text.splitlines():
        if line.startswith("#: "):
            key = line.removeprefix("#: ").split(" = ")[0]
            lines += [f"{key} = {names}"]
            lines += [f"local = {str(local).lower()}"] if key == "covariates" else []
        else:
            lines.append(line)
    return "\n".join(lines).replace('value = "Cd"', f'value = "{metal}"') + "\n"


def write_problems(folder: Path) -> dict[str, dict[str, Path]]:
    """Problem files by data and by model, each beside its tables."""
    from riesz.datasets import jura_csv

    plain = Path(os.environ["RIESZ_DATA"]) / "esrp"
    for name in ("split_D.csv", "boundary_simplified.geojson"):
        shutil.copy(plain / name, folder / name)
    (folder / "jura.csv").write_bytes(jura_csv())
    lead = ("Cu", "Ni", "Zn")
    texts = {
        "jura-Cd": {"metals": jura_problem("Cd", ("Pb", "Ni", "Zn"), local=True)},
        "jura-Pb": {
            "metals": jura_problem("Pb", lead, local=True),
            "no-local": jura_problem("Pb", lead, local=False),
        },
        "plain": {"equation": PLAIN},
    }
    found = {data: {} for data in texts}
    for data, models in texts.items():
        for model, text in models.items():
            found[data][model] = folder / f"{data}-{model}.toml"
            found[data][model].write_text(text)
    return found


def blocks_of(data: str, folder: Path) -> list[int] | None:
    """Those of the page, for the plain."""
    if data != "plain":
        return None
    with (folder / "split_D.csv").open() as file:
        return [int(row["block"]) for row in csv.DictReader(file) if row["role"] == "test"]


COARSE = {
    "8_000": "60_000",
    "inducing = 120": "inducing = 4",
    "inducing = 30": "inducing = 4",
}
SMOKE = {
    "DATA": ("plain",),
    "PLAIN": re.sub("|".join(COARSE), lambda found: COARSE[found[0]], PLAIN),
}


def main() -> None:
    parser = parser_of(globals(), "results/bench-compare-models.json")
    parser.add_argument("--folder", type=Path, default=Path("out/compare-models"))
    parser.add_argument("--data", nargs="*", choices=DATA, default=DATA)
    options = parser.parse_args()
    import jax

    jax.config.update("jax_enable_x64", True)
    import riesz as rz

    options.folder.mkdir(parents=True, exist_ok=True)
    rows, scores, verdicts = [], [], {}
    for data, models in write_problems(options.folder).items():
        if data not in options.data:
            continue
        runs = []
        for model, path in models.items():
            runs.append(options.folder / data / model)
            if not runs[-1].is_dir():
                rz.read_problem(path).fit(runs[-1], progress=False)
        clock = time.perf_counter()
        found = rz.case.compare_runs(
            runs, options.folder / data / "comparison", blocks=blocks_of(data, options.folder)
        )
        seconds = time.perf_counter() - clock
        print(f"{data}, {seconds:.0f} s\n{found}", flush=True)
        verdicts[data] = {"words": list(map(str, found.verdict)), "seconds": round(seconds, 1)}
        scores += [{"data": data} | row for row in found.rows()]
        for claim in CLAIMS:
            if claim.data == data:
                rows += [judged(claim, found, how) for how in (ONE, BLOCKS)]
    save(
        options.out,
        {"data": list(options.data)},
        0,
        rows,
        {
            "agree": sum(row["agrees"] and row["as_asked"] for row in rows),
            "of": sum(row["as_asked"] for row in rows),
            "verdicts": verdicts,
            "models": scores,
        },
    )


def judged(claim: Claim, found, how: str) -> dict:
    """Whether two models compare as the page says, left out in one way."""
    apart = found.difference(claim.model, claim.other, score=claim.score, how=how)
    said = BETTER if apart.is_better else "worse" if apart.is_worse else TIE
    numbers = {"better_by": apart.mean, "error": apart.error, "low": apart.low, "high": apart.high}
    told = {"how": how, "as_asked": how == claim.how, "found": said}
    return claim._asdict() | told | numbers | {"agrees": said == claim.expected}


if __name__ == "__main__":
    main()
