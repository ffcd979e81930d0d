"""What each command takes, once for the command line and for Python: a model with its fields.

The command line makes an option of each field that has an `Option`, and methods such as
`run.predict` have the fields as their arguments (`takes`). Both are validated by pydantic, which is
imported when the first is: `riesz --help` needs all of this, and should answer at once.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from annotated_types import Ge, Le

from riesz.errors import RieszError

if TYPE_CHECKING:
    from riesz.density.base import AbstractDensityKind
    from riesz.density.engine import AbstractEngine
    from riesz.method.base import AbstractMethod

    Engine = AbstractMethod | AbstractEngine | str
    Density = AbstractDensityKind | str
else:
    Engine = Density = Any  # engines bring JAX with them

P = ParamSpec("P")
Subject = TypeVar("Subject")
Options = TypeVar("Options")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Option:
    """What a field is for, and how the command line has it where the field itself does not say."""

    help: str
    name: str | None = None  # without dashes, of an argument
    metavar: str | None = None
    kind: Any = None  # of one word, where Python takes more than a command line can
    read: Callable[[Any], Any] | None = None  # from words to the value
    least: int | None = None  # of such a word


def option_in(hint: Any) -> Option | None:
    """How the command line has what is annotated so."""
    metadata = getattr(hint, "__metadata__", ())
    return next((one for one in metadata if isinstance(one, Option)), None)


def option_flag(name: str, option: Option | None) -> str:
    return (option and option.name) or f"--{name.replace('_', '-')}"


def command_words(options: Any, *names: str) -> list[str]:
    """These options as one types them: those that are given, by texts, numbers, and yes or no."""
    hints = get_type_hints(type(options), include_extras=True)
    result: list[str] = []
    for name in names:
        value, option = getattr(options, name), option_in(hints[name])
        flag = option_flag(name, option)
        if value is True or value is False:
            is_usual = value == getattr(type(options), name)
            result += [] if is_usual else [flag if value else f"--no-{name}"]
        elif isinstance(value, int | float | str | Path):
            result += [flag, f"{value:g}s" if name == "time_limit" else str(value)]
    return result


def takes(
    options: Callable[P, Options],
) -> Callable[[Callable[[Subject, Options], Result]], Callable[Concatenate[Subject, P], Result]]:
    """A method of one argument, a model, as one with the model's fields as its arguments."""

    def decorate(
        method: Callable[[Subject, Options], Result],
    ) -> Callable[Concatenate[Subject, P], Result]:
        @wraps(method)
        def call(subject: Subject, /, *values: P.args, **named: P.kwargs) -> Result:
            return method(subject, validate(options, *values, **named))

        first = next(iter(inspect.signature(method).parameters.values()))
        types = get_type_hints(options)  # without how the command line has them
        own = inspect.signature(options).parameters.values()
        signature = inspect.Signature(
            [
                first.replace(kind=inspect.Parameter.POSITIONAL_ONLY),
                *(one.replace(annotation=types[one.name]) for one in own),
            ]
        )
        call.__dict__["__signature__"] = signature
        return call

    return decorate


def validate(options: Callable[P, Options], *values: P.args, **named: P.kwargs) -> Options:
    """A model with these values; raises where one of them is no such thing, or out of bounds."""
    given = inspect.signature(options).bind(*values, **named)  # a wrong name is a TypeError
    adapter = adapter_of(options)
    try:
        return adapter.validate_python(given.arguments)
    except import_module("pydantic").ValidationError as error:
        first = error.errors(include_url=False)[0]
        told = first["msg"].replace("Input should be", "it should be")
        raise RieszError(f"{first['loc'][0]} is {first['input']!r}: {told}.") from None


@cache
def adapter_of(options: Any) -> Any:
    return import_module("pydantic").TypeAdapter(options)


def parse_seconds(text: str) -> float:
    """From 90s, 10m or 2h, or from a plain number of seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return float(number) * unit
    except ValueError:
        raise RieszError(f"{text!r} is no time: write 90s, 10m or 2h") from None


def devices_in(text: str) -> int | str:
    """A number, or all."""
    try:
        return "all" if text == "all" else int(text)
    except ValueError:
        raise RieszError(f"{text!r} is no number: write 2, say, or all") from None


def pairs_in(
    option: str, wanted: str, advice: str, *, may_be_empty: bool = False
) -> Callable[[Sequence[str]], dict[str, str]]:
    """What reads `name=value`, several times, each name once."""

    def read(words: Sequence[str]) -> dict[str, str]:
        result: dict[str, str] = {}
        for word in words:
            name, sign, value = (part.strip() for part in word.partition("="))
            if not (sign and name and (value or may_be_empty)):
                raise RieszError(f"{option} is {word!r}: give {wanted}.")
            if name in result:
                raise RieszError(f"{option} names {name} twice: {advice}.")
            result[name] = value
        return result

    return read


covariates_in = pairs_in(
    "--covariate",
    "a covariate and its value, a word or a raster, such as dist=0.3 or dist=dist.tif",
    "name it once",
)


def conditions_in(option: str) -> Callable[[Sequence[str]], dict[str, str]]:
    wanted = "a column and what its cells must hold, such as status=ok, or status= for empty cells"
    return pairs_in(option, wanted, "write a list into the problem file", may_be_empty=True)


def split_names(text: str) -> tuple[str, ...]:
    """By commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


File = Path | str
Seed = Annotated[int, Ge(0), Le(2**63 - 1), Option("Starts the random numbers.")]
DrawsSeed = Annotated[
    int, Ge(0), Le(2**63 - 1), Option("Other draws than those kept, which are computed.")
]
ENGINE = Option("auto, or the name of a method such as mcmc.", kind=str)
DENSITY = Option("What the method works on: exact, marginal, surrogate and so on.", kind=str)
Check = Annotated[
    bool | None,
    Option("Check the posterior by exact solves afterwards [default: if that is quick]."),
]
TimeLimit = Annotated[
    float | None,
    Option(
        "After 90s, 10m or 2h, say, end with what there is.",
        *("--time", "TIME"),
        read=parse_seconds,
    ),
]
NUM_DRAWS = Option("So many [default: all that the run keeps]; more are computed.", "--draws")
Covariates = Annotated[
    Mapping[str, Any] | None,
    Option(
        "A covariate at the places: a value, a word or a raster; repeat for others.",
        *("--covariate", "NAME=VALUE|RASTER.tif", list[str], covariates_in),
    ),
]


@dataclass(frozen=True)
class InitOptions:
    """What `riesz init` and `rz.case.write_first_problem` take; what is None is guessed."""

    polygon: Annotated[
        File | None, Option("The outline of the domain: .geojson, .gpkg, .shp.", "POLYGON")
    ] = None
    out: Annotated[File, Option("The file to write.")] = Path("problem.toml")
    _: KW_ONLY
    x: Annotated[str | None, Option("The column of x.")] = None
    y: Annotated[str | None, Option("The column of y.")] = None
    value: Annotated[str | None, Option("The column of values.")] = None
    crs: Annotated[
        str | None, Option("The table's coordinates, such as EPSG:25832 or EPSG:4326.")
    ] = None
    polygon_crs: Annotated[str | None, Option("The polygon's, where its file does not say.")] = None
    layer: Annotated[str | None, Option("Which layer of a map, or sheet of a spreadsheet.")] = None
    sites: Annotated[File | None, Option("A table of where the sites of the readings are.")] = None
    site: Annotated[
        str | None, Option("The column of sites: readings of one become one observation.")
    ] = None
    where: Annotated[
        Mapping[str, str],
        Option(
            "Only rows with this cell.", None, "COLUMN=CELL", list[str], conditions_in("--where")
        ),
    ] = field(default_factory=dict)
    sites_where: Annotated[
        Mapping[str, str],
        Option("Only such sites.", None, "COLUMN=CELL", list[str], conditions_in("--sites-where")),
    ] = field(default_factory=dict)
    covariates: Annotated[
        Sequence[str],
        Option("Columns measured beside it, by commas.", None, "NAMES", str, split_names),
    ] = ()
    recharge: Annotated[File | None, Option("A dated table of recharge: for a model in time.")] = (
        None
    )
    wells: Annotated[File | None, Option("A dated table of wells and their rates: likewise.")] = (
        None
    )
    log: Annotated[bool, Option("Model the logarithm of the value.")] = False

    @property
    def in_time(self) -> bool:
        """Whether tables say what drives a model in time."""
        return self.recharge is not None or self.wells is not None


@dataclass(frozen=True)
class FitOptions:
    """What `riesz fit` and `case.fit` take."""

    out: Annotated[File, Option("The run folder to make.", metavar="RUN")]
    engine: Annotated[Engine | None, ENGINE] = None
    _: KW_ONLY
    density: Annotated[Density | None, DENSITY] = None
    seed: Seed = 0
    check: Check = None
    time_limit: TimeLimit = None
    devices: Annotated[
        Any,
        Option(
            "Share draws and chains among so many of JAX's devices, or all.",
            metavar="N|all",
            read=devices_in,
        ),
    ] = None
    refine: Annotated[
        bool, Option("Then refine the mesh where the data need it, and fit again.")
    ] = False
    resume: Annotated[bool, Option("Go on with a fit of this --out that was stopped.")] = False
    checkpoint_seconds: Annotated[float, Ge(0), Option("Keep the state of the fit so often.")] = (
        30.0
    )
    progress: bool = True
    told: Callable[[str], None] | None = None  # called with what to know before the work begins


@dataclass(frozen=True)
class CalibrationOptions:
    """What `riesz check --calibrate` and `case.calibrate` take."""

    out: Annotated[File | None, Option("Folder for results.json and ranks.png of --calibrate.")] = (
        None
    )
    _: KW_ONLY
    num_data_sets: Annotated[
        int | None, Ge(20), Option("So many for --calibrate [default: 500].", "--data-sets")
    ] = None
    seed: Seed = 0


@dataclass(frozen=True)
class PredictOptions:
    """What `riesz predict` and `run.predict` take."""

    quantity: Annotated[
        str,
        Option(
            "measurement: what a new one would read, noise included; value: without noise; u: the "
            "state of the equation; flux; or the name of an unknown."
        ),
    ] = "measurement"
    stat: Annotated[
        str,
        Option(
            "mean, sd, median, q05 or q:0.025, exceed:VALUE; several by commas; all; or ensemble."
        ),
    ] = "mean"
    _: KW_ONLY
    points: Annotated[
        Any, Option("CSV of places, columns named as in the observations.", kind=Path)
    ] = None
    grid: Annotated[
        str | tuple[int, int] | None,
        Option("So many cells along x and y, such as 80x60.", kind=str),
    ] = None
    cell: Annotated[float | None, Option("Square cells of this size.")] = None
    num_draws: Annotated[int | None, Ge(2), NUM_DRAWS] = None
    covariates: Covariates = None
    at: Annotated[
        Any,
        Option(
            "Of a problem in time: a date, several by commas, or all [default: the last, or those "
            "of the points]; without places, at the observed ones.",
            *(None, "DATE|all", str),
        ),
    ] = None
    changes: Annotated[
        File | None,
        Option(
            "What if: a TOML file of other wells, sources or boundary values.", "--with", "CHANGES"
        ),
    ] = None
    seed: DrawsSeed = 0


@dataclass(frozen=True)
class ReportOptions:
    """What `riesz report` and `run.report` take."""

    out: Annotated[File | None, Option("The page to write [default: report.html in RUN].")] = None
    _: KW_ONLY
    num_draws: Annotated[int | None, Ge(20), NUM_DRAWS] = None
    seed: DrawsSeed = 0


@dataclass(frozen=True)
class NextOptions:
    """What `riesz next` and `run.next` take."""

    quantity: Annotated[
        str,
        Option(
            "What is to be better known: u, the state; an unknown by its name; a line of the "
            "budget; or on which side of a value what is measured lies.",
            *("--for", "u|NAME|budget:TERM|exceed:VALUE"),
        ),
    ] = "u"
    out: Annotated[
        File | Sequence[File],
        Option("A file: .csv, .tif or .png; repeat for others.", kind=list[Path]),
    ] = ()
    _: KW_ONLY
    candidates: Annotated[
        Any,
        Option(
            "CSV of places, columns named as in the observations [default: all over].", kind=Path
        ),
    ] = None
    cell: Annotated[float | None, Option("Candidates are square cells of this size.")] = None
    count: Annotated[int, Ge(1), Option("So many places, one by one.")] = 1
    noise: Annotated[
        float | None, Option("Standard deviation of the next one [default: as fitted].")
    ] = None
    report: Annotated[bool, Option("Write the report of the run, with this in it.")] = False
    num_draws: Annotated[int | None, Ge(20), NUM_DRAWS] = None
    covariates: Covariates = None
    at: Annotated[
        Any,
        Option(
            "Of a problem in time: the date [default: the last, or those of the candidates].",
            *(None, "DATE", str),
        ),
    ] = None
    seed: DrawsSeed = 0


@dataclass(frozen=True)
class CompareOptions:
    """What `riesz compare` and `rz.case.compare_runs` take."""

    out: Annotated[
        File | None,
        Option("Folder for results.json, models.csv, pairs.csv and differences.png."),
    ] = None
    _: KW_ONLY
    blocks: Annotated[
        Any, Option("So many on the map [default: 8, or fewer].", kind=int, least=2)
    ] = None
    refit: Annotated[
        bool | None,
        Option(
            "Fit again without a block where weights cannot leave it out [default: where that "
            "takes two minutes or less]."
        ),
    ] = None
    seed: Seed = 0
