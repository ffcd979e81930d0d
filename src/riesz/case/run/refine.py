"""A fit on a mesh that is refined for the data, after one on the mesh of the problem file."""

import dataclasses
import math

from riesz.case.file.problem import Case
from riesz.case.options import FitOptions
from riesz.deadline import Deadline
from riesz.diagnose.goal_oriented import NestedMesh, mesh_for_data
from riesz.errors import RieszError, error_sentence
from riesz.inference.fit import FAILURES, Choice, fit, with_notes
from riesz.notes import Note
from riesz.posterior.posterior import Posterior

ROUNDS = 3
"""Of refinement and a fit, each where the last one ended."""

REFINING = ("mesh_refined", "not_refined")
"""Notes, one of which a posterior has where this was asked for."""


def fit_on_refined_mesh(
    case: Case, posterior: Posterior, choice: Choice, options: FitOptions, deadline: Deadline
) -> tuple[Posterior, NestedMesh | None]:
    """The posterior on a mesh that is refined for the data, from where it is on the one at hand;
    where that fails, a note says why. What was corrected before is no part of the problem.

    The mean may move where the error was large: it is looked at again. There is no checkpoint: what
    is stopped begins again from the first posterior, which has one.
    """
    finer, fitted = None, None
    try:
        for _ in range(ROUNDS):
            with deadline.enforce("before the mesh was refined"):
                at = posterior.coordinate_mean()
                finer = mesh_for_data(case.problem, at, begin=finer)
            if finer.mesh.num_nodes == posterior.problem.forward.space.mesh.num_nodes:
                break
            left = deadline.remaining()
            posterior = fit(
                finer.problem,
                dataclasses.replace(choice, engine=choice.engine.with_start(posterior)),
                seed=options.seed,
                progress=options.progress,
                check=options.check,
                time_limit=left if math.isfinite(left) else None,
                devices=options.devices,
                mesh_error=case.tables.mesh_error,
            )
            fitted = finer
    except (RieszError, *FAILURES) as error:
        return with_notes(posterior, Note("not_refined", error=error_sentence(error))), fitted
    assert finer is not None
    return with_notes(posterior, finer.note), fitted
