"""What commands of `riesz` share: options, JSON, and what they choose for their whole process."""

import dataclasses
import os
import tomllib
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from riesz.case.options import FitOptions, Option, option_flag, option_in, validate
from riesz.errors import RieszError

KEYWORD_ONLY = Parameter.KEYWORD_ONLY
BOUNDS = (("min", "ge"), ("max", "le"))
"""As Typer and the models call them."""

OutOption = Annotated[
    Path, typer.Option("--out", help="Folder for results.json, table and figures.")
]
# The largest that a key takes; experiments make others, up to a thousand times as large.
SeedOption = Annotated[int, typer.Option("--seed", help="Draws fresh data.", min=0, max=2**32 - 1)]
FitSeedOption = Annotated[
    int, typer.Option("--seed", help="Starts the random numbers.", min=0, max=2**63 - 1)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")]
ProblemArgument = Annotated[
    Path, typer.Argument(help="The problem file (TOML).", metavar="PROBLEM")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="Print nothing but errors, and JSON where asked for.")
]
CheckJsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object last.")]


def as_parser(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same for Typer, which names the option whose text is wrong."""

    @wraps(read)
    def parse(text: str) -> Any:
        try:
            return read(text)
        except RieszError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a command found: for programs, in lines, and what to be aware of."""

    content: dict[str, Any]
    lines: Iterable[str]
    notes: Iterable[str] = ()

    def show(self, *, quiet: QuietOption = False, as_json: CheckJsonOption = False) -> None:
        for note in () if quiet else self.notes:
            typer.echo(f"note: {note}", err=True)
        if as_json:
            typer.echo(json_of(self.content))
        elif not quiet:
            typer.echo("\n".join(self.lines))


def with_options(function: Callable[..., Answer | None]) -> Callable[..., None]:
    """A command with an option for each field of its parameter `options`, a model.

    The function is called with the model; fields without an `Option` are Python's alone. An
    `Answer` that it returns is shown, as --quiet and --json say.
    """
    given_by = signature(function, eval_str=True)
    own, shows = given_by.parameters, given_by.return_annotation is Answer
    model = own["options"].annotation
    hints = get_type_hints(model, include_extras=True)
    options_by_field = {one: option_in(hints[one.name]) for one in dataclasses.fields(model)}
    options = {field: option for field, option in options_by_field.items() if option is not None}
    generated = [parameter_of(one, hints[one.name], option) for one, option in options.items()]
    parameters: list[Parameter] = []
    for name, one in own.items():
        parameters += generated if name == "options" else [one.replace(kind=KEYWORD_ONLY)]
    shown = list(signature(Answer.show).parameters.values())[1:] if shows else []
    parameters += shown

    @wraps(function)
    def command(**given: Any) -> None:
        words = {one.name: (given.pop(one.name), option) for one, option in options.items()}
        values = {
            name: option.read(value) if option.read and is_repeated(option) else value
            for name, (value, option) in words.items()
            if value is not None
        }
        form = {one.name: given.pop(one.name) for one in shown}
        answer = function(**given, options=validate(model, **values))
        if answer is not None:
            answer.show(**form)

    command.__dict__["__signature__"] = Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def is_repeated(option: Option) -> bool:
    """Whether it may be given several times: Typer does not read such words by a parser."""
    return get_origin(option.kind) is list


def parameter_of(field: dataclasses.Field[Any], hint: Any, option: Option) -> Parameter:
    """The parameter by which Typer knows of a field."""
    name, (annotated, *metadata) = field.name, get_args(hint)
    kinds = get_args(annotated) or (annotated,)
    kind = option.kind or kinds[0]
    flag = option_flag(name, option)
    if kind is bool and (NoneType in kinds or field.default is True):
        flag = f"{flag}/--no-{name}"
    is_flag = flag.startswith("--")
    about: dict[str, Any] = {"help": option.help, "min": option.least}
    about |= {"metavar": option.metavar if is_flag else flag}
    for one in metadata:
        about |= {key: getattr(one, at) for key, at in BOUNDS if hasattr(one, at)}
    if option.read is not None and not is_repeated(option):
        about["parser"] = as_parser(option.read)
    info = typer.Option(flag, **about) if is_flag else typer.Argument(**about)
    default = None if field.default == () else field.default
    if field.default is dataclasses.MISSING:
        is_required = field.default_factory is dataclasses.MISSING
        default = Parameter.empty if is_required else None
    annotation = Annotated[kind | None if default is None else kind, info]
    return Parameter(name, KEYWORD_ONLY, default=default, annotation=annotation)


ProcessesOption = Annotated[
    str | None,
    typer.Option(
        "--processes",
        help="Fit together with other processes that run the same command: auto under SLURM and "
        "Open MPI; else HOST:PORT of the first, how many, and which this is, from 0.",
        metavar="auto|HOST:PORT,COUNT,NUMBER",
    ),
]


def join_cluster(processes: str) -> bool:
    """Join other processes; whether this is the first of them."""
    from riesz.devices import join_processes

    if processes == "auto":
        return join_processes() == 0
    address, _, numbers = processes.partition(",")
    try:
        count, number = map(int, numbers.split(","))
    except ValueError:
        raise RieszError(
            f"--processes is {processes!r}: write auto, or HOST:PORT,COUNT,NUMBER, as in "
            "localhost:1234,2,0."
        ) from None
    return join_processes(address, count, number) == 0


def json_of(content: dict[str, Any]) -> str:
    """One line of JSON; what is not finite is an error rather than no JSON."""
    from riesz.io.store.results import json_line

    return json_line(content)


def use_float64() -> None:
    """Exact solves need it."""
    import jax

    jax.config.update("jax_enable_x64", True)


def use_one_thread() -> None:
    """For algebra of small matrices, whose threads wait for each other longer than they work.

    Libraries read it when NumPy is imported, which no command has done at its beginning.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def keep_compiled() -> None:
    """For commands that compile: the next run finds what this one compiled."""
    from riesz.io.store.programs import keep_programs

    keep_programs()


def quick_compiling() -> None:
    """For commands that evaluate everything a few times: compiling is most of what they do."""
    from riesz.io.store.programs import compile_quickly

    compile_quickly()


MARGINAL, OLD_MARGINAL = "marginal", "conditional"
"""A density whose fits are small algebra, and the engine that it was in earlier versions."""


def is_marginal(problem: Path, options: FitOptions) -> bool:
    """Whether unknowns are integrated out; files that cannot be read are told of later."""
    if options.engine is not None or options.density is not None:
        return MARGINAL in f"{options.engine} {options.density}"
    try:
        table = tomllib.loads(problem.read_text(encoding="utf-8")).get("engine", {})
    except (OSError, ValueError):
        return False
    named = f"{table.get('name')} {table.get('density')}" if isinstance(table, dict) else ""
    return MARGINAL in named or named.startswith(f"{OLD_MARGINAL} ")
