"""Notebook copies of tutorials, in the format nbformat 4.5, with their outputs."""

import json
import re
from typing import Any

from book.cells import Cell
from book.execute import Output

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
SETUP = Cell("code", "%matplotlib inline")
"""So that a figure at the end of a cell is shown."""


def notebook(cells: tuple[Cell, ...], outputs: tuple[Output, ...]) -> str:
    """As JSON. Links to pages of the book become plain words: a notebook may lie anywhere."""
    left = iter(outputs)
    entries = [code_entry(SETUP, "setup", Output("", ()), 1)]
    for index, cell in enumerate(cells):
        name = f"cell-{index}"
        if cell.kind == "markdown":
            entries.append(markdown_entry(cell, name))
        else:
            count = sum(entry["cell_type"] == "code" for entry in entries) + 1
            entries.append(code_entry(cell, name, next(left), count))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": entries,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1) + "\n"


def markdown_entry(cell: Cell, name: str) -> dict[str, Any]:
    text = LINK.sub(r"\1", cell.text)
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": lines(text)}


def code_entry(cell: Cell, name: str, output: Output, count: int) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    if output.text:
        shown.append({"output_type": "stream", "name": "stdout", "text": lines(output.text)})
    shown += [
        {"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}}
        for picture in output.pictures
    ]
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {},
        "execution_count": count,
        "source": lines(cell.text),
        "outputs": shown,
    }


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
