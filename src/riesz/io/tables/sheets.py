"""Tables out of spreadsheets, by openpyxl of the extra `excel`."""

import datetime
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from riesz.errors import FileFormatError, RieszError, nearest
from riesz.io.store.files import read_bytes
from riesz.io.tables.dialect import Row, sheet_of
from riesz.io.tables.text import TextTable, table_of_sheet

SHEETS = (".xlsx", ".xlsm")
OTHER_SHEETS = (".xls", ".ods", ".numbers")


def sheet_table(path: Path, name: str | None) -> TextTable:
    """A sheet of a spreadsheet, the first one unless it is named."""
    read_bytes(path)  # a file that is not there is told as everywhere
    openpyxl = spreadsheet_module(path)
    try:
        # Not read-only: that mode trusts the size that a file claims, which may be of one cell.
        book = openpyxl.load_workbook(path, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, TypeError) as error:
        raise FileFormatError(f"{path} is no spreadsheet (.xlsx): {error}.") from None
    names = [sheet.title for sheet in book.worksheets]
    if name is not None and name not in names:
        raise FileFormatError(
            f"{path} has no sheet {name!r}: {nearest(name, names)}It has {', '.join(names)}."
        )
    chosen = names[0] if name is None else name
    rows: list[Row] = [
        (number, [cell_text(cell) for cell in row])
        for number, row in enumerate(book[chosen].iter_rows(values_only=True), start=1)
    ]
    told = [f"sheet {chosen!r} of {', '.join(names)}"] if len(names) > 1 else []
    return table_of_sheet(path, sheet_of(path, rows, told, by_commas=False), "row")


def cell_text(value: Any) -> str:
    """As a CSV file would write it; days as the standard does."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat() if value.time() != datetime.time() else value.date().isoformat()
    if isinstance(value, float):
        # Spreadsheets know no whole numbers: an identifier of digits has no fraction.
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value).strip()


def spreadsheet_module(path: Path) -> Any:
    try:
        return import_module("openpyxl")
    except ImportError:
        raise RieszError(
            f"{path} is a spreadsheet, which openpyxl reads, and that is not installed: pip "
            "install '.[excel]' in a clone of the repository, or save the sheet as CSV."
        ) from None
