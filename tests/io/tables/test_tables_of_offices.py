"""Tables as offices write them are read alike, whatever they are encoded and separated by."""

import datetime
import io
import zipfile

import numpy as np
import pytest

from riesz.errors import FileFormatError, RieszError
from riesz.io.tables.dates import days_in
from riesz.io.tables.dialect import separator_of
from riesz.io.tables.layers import read_table

ROWS = (("Ort", "X", "Höhe"), ("Bühl", "1,5", "10,25"), ("Au", "2,5", "n/a"))


def written(folder, separator=";", encoding="utf-8", above=""):
    path = folder / "table.csv"
    text = above + "\n".join(separator.join(row) for row in ROWS) + "\n"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_encodings_and_separators_are_found(tmp_path, encoding, separator):
    table = read_table(written(tmp_path, separator, encoding))
    assert table.header == ROWS[0]
    assert table.cells("Ort") == ["Bühl", "Au"]
    np.testing.assert_array_equal(table.numbers("X"), [1.5, 2.5])
    assert "decimal commas" in table.told


def test_plain_tables_have_nothing_to_tell(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y,value\n1,2.5,<3\n")
    assert read_table(path).told == ()


@pytest.mark.parametrize(
    "above",
    ["# by hand\n", "Messnetz Nord\n\n", "Projekt;17\nStand: 1.4.2003\n", "% a;b\n// c\n", "\n\n"],
)
def test_lines_above_the_header_are_passed_over(tmp_path, above):
    table = read_table(written(tmp_path, above=above))
    assert table.header == ROWS[0]
    assert table.lines[0] == 2 + above.count("\n")


def test_a_header_may_begin_as_a_remark_and_remarks_may_stand_between_rows(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("# x,y,value\n1,2,3\n# checked until here\n4,5,6\n")
    table = read_table(path)
    assert table.header == ("x", "y", "value")
    assert table.lines.tolist() == [2, 4]


def test_names_of_columns_may_be_words_all_the_way_down(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("site;state\na;dry\nb;wet\n")
    assert read_table(path).cells("state") == ["dry", "wet"]


def test_semicolons_within_cells_do_not_separate(tmp_path):
    assert separator_of("x,y,note\n1,2,a; b\n3,4,c\n5,6,d; e\n") == ","
    assert separator_of('"x, in m";"y, in m"\n1,5;2,5\n') == ";"


@pytest.mark.parametrize("mark", [";", "\t", "   "])
def test_years_may_name_columns_and_blanks_separate_them(tmp_path, mark):
    path = tmp_path / "table.txt"
    rows = (("x", "y", "2003"), ("1", "2", "3"), ("4", "5", "6"))
    path.write_text("\n".join(map(mark.join, rows)) + "\n")
    table = read_table(path)
    assert table.header == rows[0]
    assert table.numbers("2003").tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"x,y\n\0\0", "is no text"),
        (b"\x89PNG\r\n\x1a\n\x01\x02\xfe", "is no text"),
        (b"\xff\xfex", "is not a text in utf-16, as its first bytes say"),
    ],
)
def test_what_is_no_text_is_told(tmp_path, content, told):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=told):
        read_table(path)


@pytest.mark.parametrize(
    ("cells", "day", "order"),
    [
        (["17.04.2003"], (2003, 4, 17), "day first"),
        (["17/04/2003 14:30"], (2003, 4, 17), "day first"),
        (["03/04/2003"], (2003, 4, 3), "day first"),
        (["03/04/2003", "04/17/2003"], (2003, 3, 4), "month first"),
        (["1.2.71"], (1971, 2, 1), "day first"),
        (["1.2.03"], (2003, 2, 1), "day first"),
        (["2003-04-17T10:00"], (2003, 4, 17), ""),
        (["2003/4/17"], (2003, 4, 17), ""),
        (["20030417"], (2003, 4, 17), ""),
    ],
)
def test_days_come_first_unless_that_is_impossible(cells, day, order):
    found = days_in(cells)
    assert found.found[0] == datetime.date(*day)
    assert found.order == order


def test_what_is_no_day_is_none():
    assert days_in(["31.02.2003", "soon", None, "17/13/2003"]).found == [None] * 4


def spreadsheet(folder, **sheets):
    openpyxl = pytest.importorskip("openpyxl", reason="spreadsheets need the extra excel")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    path = folder / "table.xlsx"
    book.save(path)
    return path


def test_the_first_sheet_is_read_unless_another_is_named(tmp_path):
    day = datetime.datetime(2003, 4, 17)
    rows = [["Messnetz Nord"], [], ["id", "x", "tag"], [12345678.0, "1,5", day], [2, 2.5, None]]
    path = spreadsheet(tmp_path, Werte=rows, Orte=[["a", "b"], [1, 2]])
    table = read_table(path)
    assert table.cells("id") == ["12345678", "2"]
    assert table.cells("tag") == ["2003-04-17", ""]
    np.testing.assert_array_equal(table.numbers("x"), [1.5, 2.5])
    assert table.at(0) == f"{path}, row 4"
    assert read_table(path, layer="Orte").header == ("a", "b")
    with pytest.raises(FileFormatError, match="has no sheet 'Ort': did you mean 'Orte'"):
        read_table(path, layer="Ort")


def test_what_is_no_spreadsheet_is_told(tmp_path):
    pytest.importorskip("openpyxl", reason="spreadsheets need the extra excel")
    path, packed = tmp_path / "table.xlsx", io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.txt", "nothing")
    for content in (b"x,y\n1,2\n", packed.getvalue()):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="is no spreadsheet"):
            read_table(path)
    with pytest.raises(FileFormatError, match=r"of spreadsheets \.xlsx is read: save it as that"):
        read_table(tmp_path / "table.xls")


def test_without_openpyxl_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    path = tmp_path / "table.xlsx"
    path.write_bytes(b"")
    with pytest.raises(RieszError, match=r"pip install '\.\[excel\]' .* or save the sheet as CSV"):
        read_table(path)
