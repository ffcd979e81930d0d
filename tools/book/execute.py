"""Runs a tutorial cell by cell, and keeps what each prints and draws.

    python -m book.execute examples/tutorials/transport.py out/tutorials

As in a notebook, the last line of a cell is shown if it is an expression: a figure as a picture,
anything else as text. A tutorial that fails leaves nothing behind.
"""

import ast
import base64
import io
import json
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Any

from book.cells import Cell, cells_of

DOTS_PER_INCH = 110


@dataclass(frozen=True)
class Output:
    """What a cell left: text, and pictures as PNG in base64."""

    text: str
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A tutorial that was run to its end: an output for each cell of code."""

    digest: str  # of the script
    seconds: float
    outputs: tuple[Output, ...]


def digest_of(script: str) -> str:
    return blake2b(script.encode(), digest_size=16).hexdigest()


def run(script: str, name: str) -> Run:
    """Run all cells of code in one scope; raises what they raise."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    started = time.perf_counter()
    codes = [cell for cell in cells_of(script) if cell.kind == "code"]
    outputs = tuple(run_cell(cell, f"{name}, cell {i}", scope) for i, cell in enumerate(codes, 1))
    return Run(digest_of(script), time.perf_counter() - started, outputs)


def run_cell(cell: Cell, place: str, scope: dict[str, Any]) -> Output:
    printed = io.StringIO()
    statements, last = compiled(cell, place)
    with redirect_stdout(printed):
        exec(statements, scope)
        shown = eval(last, scope) if last is not None else None
    if shown is None:
        return Output(printed.getvalue(), ())
    if hasattr(shown, "savefig"):
        return Output(printed.getvalue(), (picture_of(shown),))
    return Output(f"{printed.getvalue()}{shown!r}\n", ())


def compiled(cell: Cell, place: str) -> tuple[CodeType, CodeType | None]:
    """The statements of a cell, and the expression at its end if there is one."""
    tree = ast.parse(cell.text, place)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not is_call(tree.body[-1].value):
        expression = tree.body.pop()
        assert isinstance(expression, ast.Expr)
        last = compile(ast.Expression(expression.value), place, "eval")
    return compile(tree, place, "exec"), last


def is_call(node: ast.expr) -> bool:
    """Calls at the end of a cell, such as `print`, are made for their effect."""
    return isinstance(node, ast.Call)


def picture_of(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return base64.b64encode(file.getvalue()).decode()


def write_run(path: Path, done: Run) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(done)))


def read_run(path: Path, script: str) -> Run:
    """The outputs of this very script; others are refused."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: run the tutorials first, by `make docs`.")
    found = json.loads(path.read_text())
    if found["digest"] != digest_of(script):
        raise ValueError(f"{path} is of another version of its script: run `make docs` again.")
    outputs = tuple(Output(o["text"], tuple(o["pictures"])) for o in found["outputs"])
    return Run(found["digest"], found["seconds"], outputs)


def main(script: Path, folder: Path) -> None:
    path = folder / f"{script.stem}.json"
    path.unlink(missing_ok=True)
    done = run(script.read_text(), script.name)
    write_run(path, done)
    print(f"{script.stem}: {done.seconds:.0f} s")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
