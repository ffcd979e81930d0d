"""What a problem file leaves to the data: whether neighbours share more than the equation tells."""

import dataclasses
import re

from riesz.case.data.covariates import LOCAL
from riesz.case.file.problem import Case, read_case
from riesz.comparison.compare import compare_before_fit, gain_by
from riesz.engines.base import AbstractEngine
from riesz.engines.conditional.engine import Conditional

AUTO = "auto"
WRITTEN = re.compile(rb"""^([^#\n]*\blocal"?\s*=\s*)("auto"|'auto')""", re.MULTILINE)
"""Where it is no comment."""


def settled(case: Case, engine: AbstractEngine) -> Case:
    """The case with `local` decided by leaving out each observation; its remarks say how.

    They also say what `compare` will say of the run: whether the equation helps at all.

    The decision is written into the case's own text of the problem, which a run folder keeps.
    """
    if case.tables.observations.local != AUTO:
        return case
    gain = gain_by(case.problem, LOCAL) if isinstance(engine, Conditional) else None
    if gain is None:
        told = "with what neighbours share: whether it helps is found out by conditional alone"
        return decided(case, (told,), keep=True)
    keep = gain.mean > 0
    told = (
        f"{'with' if keep else 'without'} what neighbours share beyond the equation: it changes "
        f"the log-density of a left-out observation by {gain.mean:+.3f} +- {gain.error:.2g}"
    )
    case = decided(case, (told,), keep=keep)
    verdict = compare_before_fit(case.problem)
    words = () if verdict is None else verdict.words
    return dataclasses.replace(case, remarks=(*case.remarks, *words))


def decided(case: Case, remarks: tuple[str, ...], *, keep: bool) -> Case:
    content = WRITTEN.sub(rb"\1" + (b"true" if keep else b"false"), case.content, count=1)
    if not keep:
        again = read_case(case.path, coarse=case.coarse, content=content)
        return dataclasses.replace(again, notes=case.notes, remarks=remarks)
    names = case.tables.observations.model_copy(update={"local": True})
    tables = case.tables.model_copy(update={"observations": names})
    return dataclasses.replace(case, content=content, tables=tables, remarks=remarks)
