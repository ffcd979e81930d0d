"""What a run needs the equation for: its posterior, draws that are not kept, fluxes, scenarios."""

import dataclasses
from pathlib import Path

from riesz.case.file.changes import Scenario, read_scenario
from riesz.case.file.problem import Case, read_case
from riesz.case.run import folder as layout
from riesz.case.run.folder import Run
from riesz.diagnose.facts import fit_facts
from riesz.errors import FileFormatError
from riesz.io.meshes.files import read_npz, require_array
from riesz.io.store.files import read_arrays
from riesz.io.store.posterior import load_posterior
from riesz.notes import Note
from riesz.posterior.mesh_shift import with_mesh_error
from riesz.posterior.posterior import ExactStates, Posterior
from riesz.prediction.drawing import draws_and_readings, posterior_draws
from riesz.prediction.predict import predict
from riesz.prediction.sampling import reading
from riesz.problem.finer import on_parts

__all__ = ["draws_and_readings", "fit_facts", "posterior_draws", "predict", "reading"]
"""What others make of these, for those who import this module when they are asked."""


PARENT = "parent"
"""The data of cells that say what each is part of."""


def case_in(run: Run, scenario: Scenario | None = None) -> Case:
    """The problem as it was fitted, or as it would be under a scenario."""
    case, refined = case_before(run, scenario), run.folder / layout.REFINED
    if not refined.is_file():
        return case
    parent = require_array(refined, read_arrays(refined), f"cell_data/{PARENT}", "i", 1)
    return dataclasses.replace(case, problem=on_parts(case.problem, read_npz(refined), parent))


def case_before(run: Run, scenario: Scenario | None = None) -> Case:
    """The same on the mesh that the problem file describes."""
    folder = run.folder
    return read_case(
        folder / layout.PROBLEM,
        coarse=read_npz(folder / layout.MESH),
        kept=folder,
        decided=run.decided,
        scenario=scenario,
    )


def posterior_in(folder: Path, case: Case) -> Posterior:
    return load_posterior(folder / layout.POSTERIOR, case.problem)


def scenario(run: Run, changes: Path | str) -> Run:
    """The run under the changes of a file."""
    path = Path(changes)
    if run.before is not None:
        raise FileFormatError(f"{path}: the run is one under a scenario: give both in one file.")
    case = case_in(run, read_scenario(path, run.folder / layout.PROBLEM, run.decided))
    shift = run.posterior.shift
    problem = case.problem if shift is None else with_mesh_error(case.problem, shift)
    posterior = dataclasses.replace(run.posterior, problem=problem, states=ExactStates())
    return dataclasses.replace(
        run,
        fitted=(case, posterior),
        computed={},
        before=run,
        notes=(*run.notes, Note("scenario", file=path.name)),
        time=case.tables.time,
    )
