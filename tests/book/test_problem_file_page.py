"""The page of problem files has every key that is read, and its examples are problem files."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from riesz.case.file.schema import ProblemTables

PAGE = (Path(__file__).parents[2] / "docs" / "problem-files.md").read_text(encoding="utf-8")
MADE = {"settings", "notes", "rasters"}
"""Fields that no file has: they are made from keys of `engine`, and from `covariates`."""


def tables(annotation) -> set[type[BaseModel]]:
    """All tables that a key may hold, and those within them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner = (field.annotation for field in annotation.model_fields.values())
        return {annotation}.union(*map(tables, inner))
    return set().union(*map(tables, get_args(annotation)))


ALL = sorted(tables(ProblemTables), key=lambda table: table.__name__)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.__name__)
def test_every_key_is_on_the_page(table):
    keys = {field.alias or name for name, field in table.model_fields.items()} - MADE
    patterns = (r"`(\w+)`", r"\b(\w+) =", r"\[+(\w+)")
    shown = {key for pattern in patterns for key in re.findall(pattern, PAGE)}
    assert sorted(keys - shown) == []


def test_its_examples_have_tables_of_a_problem_file():
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        assert set(tomllib.loads(block)) <= set(ProblemTables.model_fields)
