"""What a problem file leaves to the data: whether neighbours share more than the equation tells."""

import dataclasses

from riesz.case.data.covariates import LOCAL
from riesz.case.file.problem import Case
from riesz.comparison.compare import compare_before_fit, gain_by
from riesz.engines.base import AbstractEngine
from riesz.engines.conditional.engine import Conditional

AUTO = "auto"


def settled(case: Case, engine: AbstractEngine) -> Case:
    """The case with `local` decided by leaving out each observation; its remarks say how.

    They also say what `compare` will say of the run: whether the equation helps at all.
    """
    if case.tables.observations.local != AUTO:
        return case
    gain = gain_by(case.problem, LOCAL) if isinstance(engine, Conditional) else None
    if gain is None:
        told = "with what neighbours share: whether it helps is found out by conditional alone"
        return case.with_local(local=True, remarks=(told,))
    keep = gain.mean > 0
    told = (
        f"{'with' if keep else 'without'} what neighbours share beyond the equation: it changes "
        f"the log-density of a left-out observation by {gain.mean:+.3f} +- {gain.error:.2g}"
    )
    case = case.with_local(local=keep, remarks=(told,))
    verdict = compare_before_fit(case.problem)
    words = () if verdict is None else verdict.words
    return dataclasses.replace(case, remarks=(*case.remarks, *words))
