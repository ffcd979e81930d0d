"""The oldest versions that `pyproject.toml` allows users, as constraints for pip."""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

FOR_USERS = ("arviz", "excel", "gis")
TOOLS = "test"
"""The extra whose packages run the tests: they are taken as `constraints.txt` has them."""

LOWER = re.compile(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)")


def oldest(project: dict, pinned: Sequence[str]) -> list[str]:
    """A line `name==version` for each dependency; raises where one has no lower bound."""
    extras = project["optional-dependencies"]
    found = [lower_bound(one) for one in project["dependencies"]]
    found += [lower_bound(one) for extra in FOR_USERS for one in extras[extra]]
    tools = [lower_bound(one)[0] for one in extras[TOOLS]]
    return [
        *(f"{name}=={version}" for name, version in sorted(found)),
        *(line for line in pinned if line.partition("==")[0] in tools),
    ]


def lower_bound(requirement: str) -> tuple[str, str]:
    bound = LOWER.match(requirement)
    if bound is None:
        raise ValueError(f"{requirement!r} has no lower bound: write it as name>=version.")
    return bound[1], bound[2]


if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    sys.stdout.write("\n".join(oldest(project, Path("constraints.txt").read_text().split("\n"))))
