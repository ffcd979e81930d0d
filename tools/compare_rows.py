"""Are two result files the same but for time? Rows are matched in order and compared key by key.

    python tools/compare_rows.py before/results.json after/results.json

Prints, for every column, the largest relative difference; ends with status 1 where rows, texts or
numbers beyond rounding differ. What tells of time or of the machine is left out.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

TIMES = ("seconds", "bytes")  # in the name of a column
ROUNDING = 1e-9


def rows_of(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["rows"]


def is_timed(column: str) -> bool:
    return any(word in column for word in TIMES)


def difference(before: Any, after: Any) -> float:
    """Relative for numbers; zero or infinite for all else."""
    numbers = (int, float)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return max(map(difference, before, after), default=0.0)
    if type(before) is bool or not (isinstance(before, numbers) and isinstance(after, numbers)):
        return 0.0 if before == after else math.inf
    return abs(before - after) / max(abs(before), abs(after), 1e-300)


def columns_of(before: list[dict], after: list[dict]) -> dict[str, float]:
    """The largest difference in each column."""
    names = dict.fromkeys(name for row in [*before, *after] for name in row if not is_timed(name))
    pairs = list(zip(before, after, strict=True))
    return {n: max(difference(a.get(n), b.get(n)) for a, b in pairs) for n in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    before, after = rows_of(options.before), rows_of(options.after)
    if len(before) != len(after):
        print(f"{len(before)} rows before, {len(after)} after")
        return 1
    found = columns_of(before, after)
    for name, largest in found.items():
        print(f"{name}: {'the same' if largest == 0 else f'differs by {largest:.2g}'}")
    worst = max(found.values(), default=0.0)
    print(f"{len(before)} rows, {len(found)} columns, largest relative difference {worst:.2g}")
    return int(worst > ROUNDING)


if __name__ == "__main__":
    sys.exit(main())
