"""Where to measure next, from the draws that a run keeps: as a table, a map, and for its report."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial import Delaunay

from riesz.case.options import NextOptions, PredictOptions
from riesz.case.run.design import design_at, usual_covariates
from riesz.case.run.folder import NEXT, Run, load_answers
from riesz.case.run.measurand import GAINS, LOG, Measurand, measurand_of
from riesz.case.run.outputs import PLOT, map_points
from riesz.case.run.predict import places_at, scene_of, with_rows
from riesz.case.run.request import (
    CSV,
    MODULES,
    PNG,
    TIF,
    PredictionRequest,
    Scene,
    Where,
    check_output_path,
    format_times,
    request_of,
)
from riesz.errors import FileFormatError, RieszError, nearest
from riesz.io.maps.raster import Band, write_raster_and_style
from riesz.io.store.files import csv_content, write_bytes
from riesz.io.store.results import results, write_results
from riesz.mesh.grids import Grid
from riesz.mesh.location import locate
from riesz.mesh.mesh import cell_volumes
from riesz.notes import Note
from riesz.prediction import next_draws
from riesz.prediction.draws import PosteriorDraws
from riesz.prediction.next_places import NextPlaces
from riesz.problem.unknowns import VALUE

SUFFIXES = (CSV, TIF, PNG)

SAME_OPTIONS = ("cell", "num_draws", "seed", "covariates", "at")
"""Which predictions have, too."""

NUM_CANDIDATES = 2500
"""About so many cells, where no candidates are named."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """An answer, and where its candidates are."""

    at: Where
    scene: Scene
    found: NextPlaces
    notes: tuple[Note, ...]

    @property
    def run(self) -> Run:
        return self.scene.request.run


def write_next(run: Run, options: NextOptions) -> dict[str, Any]:
    """Rank the candidates, and write the files; returns in short what was found."""
    same = {name: getattr(options, name) for name in SAME_OPTIONS}
    asked = PredictOptions(VALUE, points=options.candidates, **same)
    request = request_of(run, asked, Path(NEXT).with_suffix(CSV), "array of candidates")
    out = [options.out] if isinstance(options.out, Path | str) else options.out
    paths = [Path(one) for one in out]
    check_next_request(request, paths)
    ranking = find_next(request, options)
    files = [file for path in paths for file in write_candidates(ranking, path)]
    answer = in_short(ranking, files)
    if options.report:
        keep_answer(run.folder, ranking, answer)
        answer["files"].append(run.report()["out"])
    return answer


def check_next_request(request: PredictionRequest, paths: Iterable[Path]) -> None:
    """Raise, before any work, where what is asked makes no sense or cannot be written."""
    if request.points is not None and request.cell is not None:
        raise RieszError("candidates are cells of a size, or those of a file: give one of them.")
    for path in paths:
        own = dataclasses.replace(request, out=path)
        check_output_path(own, "where to measure next is", SUFFIXES)
        if own.suffix == TIF and request.points is not None:
            raise FileFormatError(
                f"{path}: a raster needs cells: leave candidates out, or write them to a .csv."
            )
        if own.suffix in MODULES:
            MODULES[own.suffix]()


def find_next(request: PredictionRequest, options: NextOptions) -> Ranking:
    run, quantity, known = request.run, options.quantity, request.known
    request = with_rows(request, known.mesh)
    measured = measurand_of(run.observations).with_link(known.shifts.scatter)
    named, level = look_up(quantity, measured, known)
    # Raises where there is no such quantity, before any march.
    next_draws.target(known, named, level=level)
    if request.points is None and request.cell is None:
        area = cell_volumes(known.mesh.nodes, known.mesh.cells).sum()
        request = dataclasses.replace(request, cell=float(np.sqrt(area / NUM_CANDIDATES)))
    at, notes = places_at(request, known.mesh), ()
    if request.rows is not None:
        notes = request.rows.notes
    elif isinstance(at, Grid) and run.is_around_observations:
        # Beyond the observations nothing holds the boundary: any place there would tell most.
        at, notes = cells_in_hull(at, run.prepared.points), (Note("among_observations"),)
    # Of dates that candidates have themselves, what is to be known is of the last one.
    scene = scene_of(request, None if request.column_of_dates is None else at, ())
    first, *others = scene.thens
    if others:
        raise RieszError(
            f"{len(scene.thens)} dates are asked for: give one, or candidates with a column "
            f"{run.observations.date}."
        )
    draws = align_draws(run, scene.draws)
    points = at.points if isinstance(at, Grid) else np.asarray(at)
    there = next_draws.candidates_at(
        draws,
        points,
        locate(draws.mesh, points),
        design=design_at(request, points, "a measurement there"),
        given=first.states,
        noise_sd=options.noise,
    )
    of = dataclasses.replace(next_draws.target(draws, named, level=level), name=quantity)
    usual = usual_covariates(request)
    every = (
        *(*notes, *run.notes),
        usual and Note(usual.code, **dict(usual.values) | {"points": "--candidates"}),
        Note("median_noise", what="the next") if draws.shifts.differs else None,
    )
    ranked = next_draws.rank_places(reword(of, quantity), there, options.count)
    return Ranking(at, scene, ranked, tuple(one for one in every if one))


def cells_in_hull(cells: Grid, points: Float[np.ndarray, "observation 2"]) -> Grid:
    """The cells in the hull of the observations; all where none is."""
    centre = cells.points
    inside = cells.inside.copy()
    inside[cells.inside] = Delaunay(points).find_simplex(centre) >= 0
    return dataclasses.replace(cells, inside=inside) if inside.any() else cells


def look_up(quantity: str, measured: Measurand, draws: PosteriorDraws) -> tuple[str, float | None]:
    """A quantity as draws have it, and the value to exceed in their scale."""
    if quantity.startswith(next_draws.BUDGET):
        term = quantity.removeprefix(next_draws.BUDGET)
        terms = {GAINS.get(name, name): name for name in draws.gains}
        terms |= {f"outflow, {name}": name for name in draws.outflows}
        if term not in {*terms, *terms.values()}:
            advice = f"it has {', '.join(map(repr, terms))}" if terms else "in time there is none"
            raise RieszError(f"the budget has no line {term!r}: {nearest(term, terms)}{advice}.")
        return next_draws.BUDGET + terms.get(term, term), None
    if not quantity.startswith(next_draws.EXCEED):
        return quantity, None
    value = next_draws.threshold_in(quantity)
    if measured.transform != LOG:
        return quantity, value
    if value <= 0:
        raise RieszError(
            f"{quantity}: {measured.name} was fitted by its logarithm and is positive: give a "
            "value above zero."
        )
    return quantity, float(np.log(value))


def reword(of: next_draws.Target, quantity: str) -> next_draws.Target:
    """With the words of a report for a line of the budget."""
    if not quantity.startswith(next_draws.BUDGET):
        return of
    return dataclasses.replace(
        of, words=f"variance of {quantity.removeprefix(next_draws.BUDGET)} in the budget"
    )


def align_draws(run: Run, draws: PosteriorDraws) -> PosteriorDraws:
    """Of dates that a run keeps there may be fewer draws than of the unknowns: the same ones."""
    if run.stored is None or draws.num_draws >= run.stored.draws.num_draws:
        return draws
    if draws.unknowns is not run.stored.draws.unknowns:
        return draws
    return dataclasses.replace(draws, unknowns=run.stored.draws.first(draws.num_draws).unknowns)


def candidate_rows(asked: Ranking) -> list[dict[str, Any]]:
    """A row for each candidate: the chosen ones first, then by what each would tell alone."""
    result, scene, names = asked.found, asked.scene, asked.run.observations
    points = map_points(asked.run, result.points)
    when = format_times(scene.times) if scene.paired and scene.times is not None else None
    order = np.argsort(-result.reduction, kind="stable")
    others = order[~np.isin(order, result.chosen)].tolist()
    rows = []
    for number, place in enumerate([*result.chosen.tolist(), *others]):
        is_chosen = number < len(result.chosen)
        error = float(result.error[place])
        row = {"rank": number + 1 if is_chosen else None}
        row |= dict(zip((names.x, names.y), points[place].tolist(), strict=True))
        row |= {} if when is None else {names.date or "date": when[place]}
        rows.append(
            row
            | {
                "reduction": float(result.reduction[place]),
                "share": float(result.share[place]),
                "error": None if np.isnan(error) else error,
                "cumulative": float(result.cumulative[number] / result.before)
                if is_chosen
                else None,
            }
        )
    return rows


def write_candidates(asked: Ranking, path: Path) -> list[Path]:
    """Write a file; returns it, and what goes with it."""
    result, scene = asked.found, asked.scene
    if path.suffix.lower() == CSV:
        rows = candidate_rows(asked)
        write_bytes(path, csv_content(rows[0], (row.values() for row in rows), "\r\n"))
        return [path]
    if path.suffix.lower() == PNG:
        plot = import_module(PLOT)
        figure, (axes,) = plot.new_figure(width=6.0, height=5.0)
        shown = (asked.at, 100 * result.share, result.chosen)
        plot.draw_places(axes, scene.draws.mesh, *shown, label=f"% less {result.words}")
        plot.save_figure(path, figure)
        return [path]
    assert isinstance(asked.at, Grid)
    about = f"by one measurement, of the {result.words}"
    bands = [
        Band("next_share", asked.at.fill(result.share), f"share taken {about}", "1"),
        Band("next_reduction", asked.at.fill(result.reduction), f"what is taken {about}", None),
    ]
    colours = "viridis", 0.0, float(result.share.max()) or 1.0
    tags = {"quantity": result.quantity}
    return write_raster_and_style(path, asked.at, bands, asked.run.crs, tags, colours)


def in_short(asked: Ranking, files: list[Path]) -> dict[str, Any]:
    result, scene = asked.found, asked.scene
    when = "" if scene.paired or scene.times is None else format_times(scene.times)[0]
    return {
        "quantity": result.quantity,
        "words": result.words,
        "before": result.before,
        "date": when,
        "noise_sd": float(np.median(result.noise_sd)),
        "candidates": len(result.points),
        "draws": result.num_draws,
        "places": candidate_rows(asked)[: len(result.chosen)],
        "notes": list(map(str, asked.notes)),
        "files": [str(path) for path in files],
    }


def keep_answer(folder: Path, asked: Ranking, answer: dict[str, Any]) -> None:
    """Beside the run, where its report finds it; what was asked about the same before is gone."""
    path, result = folder / NEXT, asked.found
    order = np.argsort(-result.share, kind="stable")[:NUM_CANDIDATES]
    shown = {
        "points": result.points[order].tolist(),
        "shares": result.share[order].tolist(),
        "chosen": result.points[result.chosen].tolist(),
        "cell": list(asked.at.cell) if isinstance(asked.at, Grid) else None,
    }
    others = [one for one in load_answers(folder) if one.get("quantity") != result.quantity]
    rows = [*others, answer | {"files": [], "map": shown}]
    write_results(path, results(f"riesz next {folder.name}", {}, 0, rows, {}))
