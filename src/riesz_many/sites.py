"""Which fits there are to do: problem files below a folder, or the rows of a table."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from riesz.errors import FileFormatError, RieszError
from riesz.io import TextTable, read_bytes, read_csv
from riesz_many.options import FitSettings

PROBLEM, NAME, SEED = "problem", "name", "seed"
"""Columns of a table; only the first must be there."""

LEDGER = "ledger"
"""The folder of rows, beside the runs: no site has this name."""

MANIFEST, REPORT = "manifest.json", "report.html"
"""Files of a run folder: it is known by the first, and its problem file is a copy."""

MARGINAL = "marginal"
MOST_SEED = 2**63


@dataclass(frozen=True)
class Site:
    """One fit to do.

    `digest` stands for all that it depends on, `group` for what decides which programs are
    compiled: fits of one group one after the other compile once.
    """

    name: str
    problem: str
    seed: int
    digest: str = ""
    group: str = ""
    quickly: bool = False  # whether `riesz fit` would compile with less effort


@dataclass(frozen=True)
class Order:
    """One fit for a process to do, and when to give it up: plain values, to be sent anywhere."""

    site: Site
    runs: str
    settings: FitSettings
    attempts: int  # of which the process may end before it counts as suspected
    reports: bool = True
    is_last: bool = False  # whether it fails then
    settles: bool = True  # whether its process may be made like that of `riesz fit`


def sites_in(source: Path, runs: Path, seed: int) -> tuple[list[Site], list[str]]:
    """The fits that a folder or a table asks for, and what to know of files that are left out."""
    if source.is_dir():
        sites, left_out = in_folder(source, runs, seed)
    elif source.suffix.lower() == ".toml":
        raise RieszError(f"{source} is one problem file: fit it by riesz fit {source} --out RUN.")
    else:
        sites, left_out = in_table(read_csv(source), seed), []
    if not sites:
        raise RieszError(f"{source} has no problem files: give a folder of *.toml, or a table.")
    check_site_names(sites, source)
    return sites, left_out


def in_folder(folder: Path, runs: Path, seed: int) -> tuple[list[Site], list[str]]:
    sites, left_out = [], []
    for path in sorted(folder.rglob("*.toml")):
        if path.resolve().is_relative_to(runs.resolve()) or (path.parent / MANIFEST).is_file():
            continue
        if is_other_file(path):
            left_out.append(f"{path} is left out: it has no table [observations]")
            continue
        where = path.relative_to(folder).with_suffix("")
        where = where.parent if where.name == PROBLEM else where
        sites.append(Site(where.as_posix() if where.name else folder.resolve().name, str(path), 0))
    return [replace(site, seed=seed) for site in sites], left_out


def is_other_file(path: Path) -> bool:
    """Whether a file is no problem file; one that cannot be read is told of by its own fit."""
    try:
        return "observations" not in tomllib.loads(read_bytes(path).decode())
    except (ValueError, RecursionError, RieszError):
        return False


def in_table(table: TextTable, seed: int) -> list[Site]:
    folder, problems = table.path.parent, table.words(PROBLEM)
    names = table.words(NAME) if NAME in table.header else [""] * len(problems)
    seeds = table.words(SEED) if SEED in table.header else [""] * len(problems)
    sites = []
    for row, (problem, name, own) in enumerate(zip(problems, names, seeds, strict=True)):
        path = folder / problem
        if not path.is_file():
            raise FileFormatError(f"{table.at(row)}: there is no file {path}.")
        if own and not (own.isdecimal() and int(own) < MOST_SEED):
            raise FileFormatError(f"{table.at(row)}: the seed is {own!r}, not a whole number.")
        site = replace(site_at(path), seed=int(own) if own else seed)
        sites.append(replace(site, name=name) if name else site)
    return sites


def site_at(path: Path) -> Site:
    """Named like the file, or like its folder where the file has the common name."""
    where = path.resolve().with_suffix("")
    return Site((where.parent if where.name == PROBLEM else where).name, str(path), 0)


def check_site_names(sites: Sequence[Site], source: Path) -> None:
    """Raise where two fits would share a folder, or one would leave it."""
    names = [site.name for site in sites]
    known = set(names)
    if len(known) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RieszError(f"{source} has two fits called {twice!r}: name them apart in a table.")
    for name in names:
        parts = name.split("/")
        if parts[0].casefold() in (LEDGER, "index.html", "ledger.csv") or any(
            part in ("", ".", "..") or part.endswith(".unfinished") or "\\" in part
            for part in parts
        ):
            raise RieszError(f"{source}: a fit cannot be called {name!r}: rename it.")
        above = next((up for k in range(1, len(parts)) if (up := "/".join(parts[:k])) in known), "")
        if above:
            raise RieszError(
                f"{source}: the fits {above!r} and {name!r} would lie in each other's folder: "
                "rename one, or name them in a table."
            )


class Digests:
    """Digests of files, each read once however many sites share it."""

    def __init__(self, settings: FitSettings):
        self.settings = settings
        self.known: dict[Path, tuple[str, int]] = {}

    def site(self, site: Site) -> Site:
        """With its digest, its group, and how it is compiled."""
        path = Path(site.problem)
        content = read_bytes(path)
        try:
            tables = tomllib.loads(content.decode())
        except (ValueError, RecursionError):
            tables = {}
        files = {text: self.file(result) for text, result in files_named(tables, path.parent)}
        common = asdict(self.settings)
        if self.settings.density is None:  # as ledgers of earlier versions have it
            del common["density"]
        told = [sorted(files.items()), site.seed, common]
        named = f"{self.settings.engine or ''} {self.settings.density or ''}".strip()
        engine = named or engine_name(tables)
        return replace(
            site,
            digest=digest_of(content, told),
            group=digest_of(b"", [shape_key(tables, files), common]),
            quickly=MARGINAL in (engine or ""),
        )

    def file(self, path: Path) -> tuple[str, int]:
        """Of its content, and the number of its lines."""
        path = path.resolve()
        if path not in self.known:
            content = read_bytes(path)
            self.known[path] = digest_of(content, None), content.count(b"\n")
        return self.known[path]


def digest_of(content: bytes, told: Any) -> str:
    spelt = json.dumps(told, sort_keys=True, default=str).encode()
    return blake2b(content + b"\0" + spelt, digest_size=16).hexdigest()


def engine_name(tables: Mapping[str, Any]) -> str | None:
    engine = tables.get("engine")
    return f"{engine.get('name')} {engine.get('density')}" if isinstance(engine, Mapping) else None


def files_named(value: Any, folder: Path) -> Iterator[tuple[str, Path]]:
    """Texts in a problem file that are names of files, wherever they stand."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from files_named(one, folder)
    elif isinstance(value, list):
        for one in value:
            yield from files_named(one, folder)
    elif isinstance(value, str) and value and "\0" not in value and len(value) < 1000:
        path = folder / os.path.expanduser(value)
        try:
            if path.is_file():
                yield value, path
        except OSError:
            return


def shape_key(value: Any, files: Mapping[str, tuple[str, int]]) -> Any:
    """The same tables with as many lines where tables of data are named, whatever they hold."""
    if isinstance(value, Mapping):
        return {key: shape_key(one, files) for key, one in value.items()}
    if isinstance(value, list):
        return [shape_key(one, files) for one in value]
    if isinstance(value, str) and value in files:
        digest, lines = files[value]
        return ["lines", lines] if value.lower().endswith((".csv", ".txt")) else digest
    return value
