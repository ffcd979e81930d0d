"""Which experiments there are, and how each is built from what the command was asked for.

Experiments are imported when they are built: naming them must cost nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riesz.errors import RieszError, any_of

if TYPE_CHECKING:
    from riesz_paper.running.task import Experiment


class ExperimentName(StrEnum):
    """Experiments that can be run."""

    SMOOTHER = "smoother"
    TAPER = "taper"
    NORMS = "norms"
    TRANSPORT = "transport"
    AMORTISED = "amortised"
    CHECKERBOARD = "checkerboard"
    FIELD = "field"
    BLOCKS = "blocks"
    CROSSOVER = "crossover"
    HANFORD = "hanford"
    PUMPING = "pumping"
    MISSPECIFIED = "misspecified"
    JURA = "jura"
    AQUIFER = "aquifer"
    AQUIFER_TIME = "aquifer-time"
    AGREEMENT = "agreement"
    BLIND = "blind"
    MESH_ERROR = "mesh-error"


OPTIONS = {
    ExperimentName.SMOOTHER: ("domain",),
    ExperimentName.JURA: ("metal", "data", "settings", "select"),
    ExperimentName.AQUIFER: ("split", "data", "select"),
    ExperimentName.AQUIFER_TIME: ("split", "data"),
    ExperimentName.HANFORD: ("set", "data"),
    ExperimentName.PUMPING: ("data",),
    ExperimentName.BLIND: ("problems", "part"),
    ExperimentName.MESH_ERROR: ("problems",),
}
"""What can be asked for besides mode and seed; of other experiments nothing can."""


@dataclass(frozen=True)
class Request:
    """An experiment with its options, which are those of `OPTIONS`."""

    name: ExperimentName
    mode: str
    seed: int
    domain: Path | None = None
    metal: str | None = None
    split: str | None = None
    data: Path | None = None
    settings: Path | None = None
    set: int | None = None
    select: bool = False
    problems: int | None = None
    part: str | None = None
    out: Path = Path("results/blind")  # where blind problems find the rows of shares

    def given(self) -> dict[str, Any]:
        """The options that were not left out."""
        names = (
            *("domain", "metal", "split", "data", "settings", "set", "select"),
            *("problems", "part"),
        )
        found = {name: getattr(self, name) for name in names}
        return {k: value for k, value in found.items() if not (value is None or value is False)}

    def words(self) -> list[str]:
        """The options as they are typed."""
        words = ["--seed", str(self.seed)]
        for name, value in self.given().items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return words


def experiment_of(request: Request) -> "Experiment":
    """Ready to run; options of other experiments are refused."""
    own = OPTIONS.get(request.name, ())
    for name in request.given():
        if name not in own:
            others = [other for other, options in OPTIONS.items() if name in options]
            raise RieszError(
                f"--{name} is for {any_of(others)}: leave it out for {request.name}, which has "
                f"{any_of([f'--{option}' for option in own]) if own else 'no such options'}."
            )
    with_options = {
        ExperimentName.JURA: jura_of,
        ExperimentName.AQUIFER: aquifer_of,
        ExperimentName.AQUIFER_TIME: aquifer_time_of,
        ExperimentName.HANFORD: hanford_of,
        ExperimentName.PUMPING: pumping_of,
        ExperimentName.SMOOTHER: smoother_of,
        ExperimentName.BLIND: blind_of,
        ExperimentName.MESH_ERROR: mesh_error_of,
    }
    if request.name in with_options:
        return with_options[request.name](request)
    from riesz_paper.experiments.agreement.experiment import agreement
    from riesz_paper.experiments.amortised.experiment import amortised
    from riesz_paper.experiments.blocks.experiment import blocks
    from riesz_paper.experiments.checkerboard.experiment import checkerboard
    from riesz_paper.experiments.crossover.experiment import crossover
    from riesz_paper.experiments.field.experiment import field
    from riesz_paper.experiments.misspecified.experiment import misspecified
    from riesz_paper.experiments.norms.experiment import norms
    from riesz_paper.experiments.taper.experiment import taper
    from riesz_paper.experiments.transport.experiment import transport

    builders = {
        ExperimentName.TAPER: taper,
        ExperimentName.NORMS: norms,
        ExperimentName.TRANSPORT: transport,
        ExperimentName.AMORTISED: amortised,
        ExperimentName.CHECKERBOARD: checkerboard,
        ExperimentName.FIELD: field,
        ExperimentName.BLOCKS: blocks,
        ExperimentName.CROSSOVER: crossover,
        ExperimentName.MISSPECIFIED: misspecified,
        ExperimentName.AGREEMENT: agreement,
    }
    return builders[request.name](request.seed, request.mode)


def hanford_of(request: Request) -> "Experiment":
    from riesz_paper.experiments.hanford.experiment import hanford_experiment

    return hanford_experiment(request.seed, request.mode, request.set, request.data)


def blind_of(request: Request) -> "Experiment":
    from riesz_paper.experiments.blind.experiment import blind

    return blind(request.seed, request.mode, request.out, request.problems, request.part)


def mesh_error_of(request: Request) -> "Experiment":
    from riesz_paper.experiments.mesh_error.experiment import mesh_error_experiment

    return mesh_error_experiment(request.seed, request.mode, request.problems)


def pumping_of(request: Request) -> "Experiment":
    from riesz_paper.experiments.pumping.experiment import pumping

    return pumping(request.seed, request.mode, request.data)


def aquifer_time_of(request: Request) -> "Experiment":
    from riesz_paper.data.esrp import esrp
    from riesz_paper.experiments.aquifer_time.experiment import aquifer_time_experiment

    return aquifer_time_experiment(esrp(request.data), request.seed, request.mode, request.split)


def smoother_of(request: Request) -> "Experiment":
    from riesz.io.maps.outlines import read_domain
    from riesz_paper.experiments.smoother.experiment import smoother

    if request.domain is None:
        return smoother(request.seed, request.mode)
    mesh = read_domain(request.domain)
    return smoother(request.seed, request.mode, mesh, domain=str(request.domain))


def aquifer_of(request: Request) -> "Experiment":
    from riesz_paper.data.esrp import esrp

    aquifer = esrp(request.data)
    if request.select:
        if request.split is not None:
            raise RieszError("--select chooses on the training wells of B1: leave --split out.")
        from riesz_paper.experiments.aquifer.select import aquifer_select

        return aquifer_select(aquifer, request.mode)
    from riesz_paper.experiments.aquifer.experiment import aquifer_experiment

    return aquifer_experiment(aquifer, request.seed, request.mode, request.split)


def jura_of(request: Request) -> "Experiment":
    from riesz.datasets.jura import jura, read_samples
    from riesz_paper.experiments.jura.select import jura_select
    from riesz_paper.experiments.jura.settings import read_choices

    if request.select and request.settings is not None:
        raise RieszError("--select chooses settings and --settings gives them: take one.")
    samples = jura() if request.data is None else read_samples(request.data)
    if request.select:
        return jura_select(samples, request.mode, request.metal)
    try:
        from riesz_paper.experiments.jura.experiment import jura_experiment
    except ModuleNotFoundError as error:
        raise RieszError(
            f"the experiment jura needs {error.name}: pip install '.[experiments]'."
        ) from None
    choices = None if request.settings is None else read_choices(request.settings)
    return jura_experiment(samples, request.seed, request.mode, request.metal, choices)
