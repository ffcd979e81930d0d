"""`fit_many`: many problems from Python, in this process or, by their files, in others."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from riesz import InverseProblem, Posterior, fit
from riesz.case import Case
from riesz.errors import RieszError
from riesz.inference import AbstractEngine, AbstractMethod
from riesz_many.campaign import fit_all, fit_sites
from riesz_many.ledger import Row
from riesz_many.options import Campaign
from riesz_many.sites import Site, check_site_names, site_at


def fit_many(
    problems: Sequence[InverseProblem | Case | Path | str] | Path | str,
    engine: AbstractMethod | AbstractEngine | str | None = None,
    *,
    density: Any = None,
    seed: int = 0,
    check: bool | None = None,
    time_limit: float | None = None,
    out: Path | str | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    attempts: int = 3,
    reports: bool = True,
    refit: bool = False,
    progress: bool = True,
) -> list[Posterior | RieszError] | list[Row]:
    """Fit many problems; one that fails does not stop the others.

    Problems in memory are fitted one after the other in this process: the result has the posterior
    of each, or the error. They cannot be sent to other processes. Problem files can (or a folder of
    them, or a table, as `riesz fit-many` takes it): each is fitted to a run folder in `out`, by
    `jobs` processes or those of a `cluster`, and the result has the row of each in the ledger,
    which `rz.read_run(Path(out) / row.name)` goes with. Fits that the ledger says are done are not
    done again. Problems on equal meshes with as many data share what is compiled.
    """
    options: dict[str, Any] = {"seed": seed, "check": check, "time_limit": time_limit}
    given = [] if isinstance(problems, str | PathLike) else list(problems)
    in_memory = [one for one in given if isinstance(one, InverseProblem | Case)]
    if in_memory and len(in_memory) == len(given):
        if jobs != 1 or cluster is not None or out is not None:
            raise RieszError(
                "problems in memory are fitted in this process, and kept by nobody: for jobs, "
                "cluster or out, give the paths of problem files."
            )
        return [try_fit(one, engine, density, progress=progress, **options) for one in in_memory]
    if out is None:
        raise RieszError("problem files are fitted to run folders: give the folder for them, out.")
    if not isinstance(engine, str | None) or not isinstance(density, str | None):
        raise RieszError("files are fitted by a method's name: its settings stand in the file.")
    campaign = Campaign(
        Path(problems) if isinstance(problems, str | PathLike) else Path(out),
        Path(out),
        jobs=jobs,
        cluster=cluster,
        engine=engine,
        density=density,
        attempts=attempts,
        reports=reports,
        refit=refit,
        settles=False,
        **options,
    )
    if isinstance(problems, str | PathLike):
        return fit_sites(campaign, progress=progress)
    sites = [as_site(one, seed) for one in given]
    check_site_names(sites, campaign.runs)
    return fit_all(campaign, sites, progress=progress)


def try_fit(
    problem: InverseProblem | Case,
    engine: AbstractMethod | AbstractEngine | str | None,
    density: Any,
    **options: Any,
) -> Posterior | RieszError:
    """One problem; what is wrong with it is told, and ends nothing."""
    try:
        if isinstance(problem, Case):
            return fit(problem.problem, problem.choice(engine, density), **options)
        return fit(problem, engine or "auto", density=density, **options)
    except RieszError as error:
        return error


def as_site(problem: Any, seed: int) -> Site:
    if not isinstance(problem, str | PathLike):
        raise RieszError(
            f"found a {type(problem).__name__} among paths: give problems, or paths of their files."
        )
    path = Path(problem)
    if not path.is_file():
        raise RieszError(f"there is no file {path}.")
    return replace(site_at(path), seed=seed)
