"""Which experiments there are, and how each is built from what the command was asked for.

Experiments are imported when they are built: naming them must cost nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.experiments.task import Experiment


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
    MISSPECIFIED = "misspecified"
    JURA = "jura"


@dataclass(frozen=True)
class Request:
    """An experiment with its options; most of those belong to one experiment only."""

    name: ExperimentName
    mode: str
    seed: int
    domain: Path | None = None  # of the smoother
    metal: str | None = None  # this and the rest: of jura
    data: Path | None = None
    settings: Path | None = None
    select: bool = False

    def words(self) -> list[str]:
        """The options as they are typed."""
        given = {
            "--seed": self.seed,
            "--domain": self.domain,
            "--metal": self.metal,
            "--data": self.data,
            "--settings": self.settings,
        }
        words = [
            w for name, value in given.items() if value is not None for w in (name, str(value))
        ]
        return [*words, "--select"] if self.select else words


def experiment_of(request: Request) -> "Experiment":
    """Ready to run; options of other experiments are refused."""
    if request.name is not ExperimentName.SMOOTHER and request.domain is not None:
        raise RieszError(
            f"the experiment {request.name} has domains of its own: leave --domain out; it is for "
            "smoother."
        )
    if request.name is ExperimentName.JURA:
        return jura_of(request)
    if request.select or any((request.metal, request.data, request.settings)):
        raise RieszError(
            "--metal, --data, --settings and --select are for jura: leave them out for "
            f"{request.name}."
        )
    if request.name is ExperimentName.SMOOTHER:
        return smoother_of(request)
    from riesz.experiments.amortised import amortised
    from riesz.experiments.blocks import blocks
    from riesz.experiments.checkerboard import checkerboard
    from riesz.experiments.field import field
    from riesz.experiments.misspecified import misspecified
    from riesz.experiments.norms import norms
    from riesz.experiments.taper import taper
    from riesz.experiments.transport import transport

    builders = {
        ExperimentName.TAPER: taper,
        ExperimentName.NORMS: norms,
        ExperimentName.TRANSPORT: transport,
        ExperimentName.AMORTISED: amortised,
        ExperimentName.CHECKERBOARD: checkerboard,
        ExperimentName.FIELD: field,
        ExperimentName.BLOCKS: blocks,
        ExperimentName.MISSPECIFIED: misspecified,
    }
    return builders[request.name](request.seed, request.mode)


def smoother_of(request: Request) -> "Experiment":
    from riesz.experiments.smoother import smoother
    from riesz.io.domain_file import read_domain

    if request.domain is None:
        return smoother(request.seed, request.mode)
    mesh = read_domain(request.domain)
    return smoother(request.seed, request.mode, mesh, domain=str(request.domain))


def jura_of(request: Request) -> "Experiment":
    from riesz.datasets.jura import jura, read_samples
    from riesz.experiments.jura_select import jura_select
    from riesz.experiments.jura_settings import read_choices

    if request.select and request.settings is not None:
        raise RieszError("--select chooses settings and --settings gives them: take one.")
    samples = jura() if request.data is None else read_samples(request.data)
    if request.select:
        return jura_select(samples, request.mode, request.metal)
    try:
        from riesz.experiments.jura import jura_experiment
    except ModuleNotFoundError as error:
        raise RieszError(
            f"the experiment jura needs {error.name}: pip install '.[experiments]'."
        ) from None
    choices = None if request.settings is None else read_choices(request.settings)
    return jura_experiment(samples, request.seed, request.mode, request.metal, choices)
