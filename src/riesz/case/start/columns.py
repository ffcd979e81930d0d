"""Which columns of a table hold coordinates and values: by their names, and by their ranges."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from jaxtyping import Float

from riesz.case.data.read import AS_FLOAT
from riesz.errors import FileFormatError
from riesz.geometry.crs import could_be_degrees
from riesz.io.tables.layers import TextTable
from riesz.io.tables.numbers import is_none, number_or_limit
from riesz.notes import Note

Box = Float[np.ndarray, "corner 2"]

PAIRS = (
    (r"x(_.*|coord.*|koord.*|_?l93|_?lambert.*)?|.*_x|(coord|koord).*x|utm_?x", {"x": "y"}),
    (r"(.*_)?(rechts(wert)?|r_?wert|rw)(_.*)?", {"rechts": "hoch", "rw": "hw", "r": "h"}),
    (r"east(ing)?s?(_.*)?|.*_east(ing)?", {"east": "north"}),
    (r"(.*_)?(ost(wert)?|est)(_.*)?", {"ost": "nord", "est": "nord"}),
    (r"(.*_)?abscisse(_.*)?", {"abscisse": "ordonnée"}),
    (r"(utm_)?e(_.*)?", {"e": "n"}),
    (
        r"(.*_)?(lon(g|gitude?|gitudine)?|länge(ngrad)?|laenge(ngrad)?)(_.*)?",
        {
            "longitudine": "latitudine",
            "longitud": "latitud",
            "long": "lat",
            "lon": "lat",
            "länge": "breite",
            "laenge": "breite",
        },
    ),
)
"""How columns along the first axis are called, and what to replace for the other one.

In English, German and French; in the words of `bare`.
"""

DEGREES = PAIRS[-1][0]

VALUES = (
    r"(.*_)?(value|head|level|conc|concentration|measured|measurement|result|temp|obs|(mess)?wert|"
    r"gehalt|konzentration|(grund)?wasserstand|ergebnis|temperatur|valeur|teneur|niveau|résultat|"
    r"température)(_.*)?"
)

NO_VALUES = (
    r"(.*_)?(id|nr|num|number|code|year|month|day|date|time|lon|lat|longitude|latitude|alt|elev|"
    r"elevation|depth|sd|err|error|count|index|fid|site|station|well|sample|nummer|probe|punkt|"
    r"datum|jahr|monat|tag|uhrzeit|tiefe|point|"
    r"messstelle|brunnen|bohrung|borehole|bore|puits|forage|piézomètre|piezometre|piezometer|pozo|"
    r"sondeo|pozzo|peilbuis|numéro|année|mois|jour|heure|profondeur)(_.*)?|[nxy](_.*)?|.+_(no|cd|se|acy)|dtw_.*"
)
"""Short words alone may be elements: Cd, No, Se."""

UNITS = frozenset(
    (
        *("%", "‰", "ppm", "ppb", "ppt", "t", "kg", "g", "mg", "µg", "μg", "ug", "ng", "TM", "TS"),
        *("km", "m", "cm", "mm", "ft", "m2", "m²", "ha", "m3", "m³", "L", "l", "ml", "mol", "mmol"),
        *("s", "min", "h", "d", "a", "yr", "K", "°C", "°F", "Pa", "hPa", "kPa", "bar", "V", "mV"),
        *("S", "mS", "µS", "uS", "NTU", "Bq"),
        *("ü.", "NN", "NHN", "ü.NN", "üNN", "mNN", "mNHN", "müNN", "ü.M.", "NGF", "NAP"),
        *("asl", "a.s.l.", "amsl", "masl"),
    )
)
"""Words that units in headers are made of; TM and TS are dry matter, NN and its like the level of
the sea."""

ENDINGS = {
    **{f"_{unit}": unit for unit in ("ft", "m", "km", "cm", "mm", "ppm", "ppb")},
    **{f"_{mass}_{by}": f"{mass}/{by}" for mass in ("mg", "ug", "g") for by in ("kg", "l", "m3")},
    "_mgkg": "mg/kg",
    "_mgl": "mg/l",
    "_degc": "°C",
}
"""Ends of names that are units."""

BRACKETS = re.compile(r"(.+?)\s*[\[(]([^\[\]()]+)[\])]\s*")

MOSTLY = 0.5
"""The share of cells that must be numbers in a column of values."""

MOST_TOLD, MOST_SHOWN = 12, 20
"""Columns, and letters of their first cell, that an error tells."""


def bare(name: str) -> str:
    """A name in small letters, without its unit, words joined by underscores."""
    match = BRACKETS.fullmatch(name)
    words = name if match is None else match[1]
    return re.sub(r"[\s./-]+", "_", words.casefold()).strip("_")


def unit_of(name: str) -> str | None:
    """The unit in the name of a column: Zn [mg/kg], head_ft."""
    match = BRACKETS.fullmatch(name)
    if match is not None:
        parts = [part for part in re.split(r"[/*·\s]+|\^?-?\d$", match[2]) if part]
        return match[2].strip() if parts and all(part in UNITS for part in parts) else None
    result = (unit for end, unit in ENDINGS.items() if name.casefold().endswith(end))
    return max(result, key=len, default=None)


@dataclass(frozen=True)
class Guess:
    """Names of columns, and why they were taken."""

    x: str
    y: str
    value: str
    why: tuple[Note, ...]


def guess_columns(
    table: TextTable,
    places: TextTable,
    *,
    x: str | None,
    y: str | None,
    value: str | None,
    boxes: Sequence[Box] = (),
) -> Guess:
    """The columns that were named, and guesses for those that were not.

    Coordinates are columns of `places`: the table itself, or one of its sites. `boxes` are where
    the polygon may be, in coordinates that the columns may be in.
    """
    for name, of in ((x, places), (y, places), (value, table)):
        if name is not None:
            check_numeric(of, name)
    why = []
    if x is None or y is None:
        x, y, reason = pair_of(places, boxes, x, y)
        why.append(Note("axes_guessed", x=x, y=y, reason=reason))
    if value is None:
        of_place = () if places is not table else columns_of_place(table, (x, y))
        value, reason = value_column(table, (x, y), of_place)
        why.append(Note("value_guessed", column=value, reason=reason))
    taken = (x, y, value) if places is table else (x, y)
    for name in taken:
        if taken.count(name) > 1:
            raise FileFormatError(
                f"{places.path}: the column {name} is named twice: x, y and the value are three "
                "columns."
            )
    return Guess(x, y, value, tuple(why))


def check_numeric(table: TextTable, name: str) -> None:
    """Raise where a column that was named has no number at all."""
    if not np.isfinite(table.floats(name, limits=True)).any():
        first = (table.cells(name)[0] or "")[:MOST_SHOWN]
        raise FileFormatError(
            f"{table.path}: the column {name} has no numbers, first {first!r}: "
            f"name another one of {', '.join(table.header)}."
        )


def pair_of(
    table: TextTable, boxes: Sequence[Box], x: str | None, y: str | None
) -> tuple[str, str, str]:
    """Two columns that are named as coordinates or, with a polygon, that lie in its range.

    One of them may be given; the other is then one that goes with it.
    """

    def fitting(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [pair for pair in pairs if x in (None, pair[0]) and y in (None, pair[1])]

    named = fitting(
        (one, other)
        for pattern, swaps in PAIRS
        for one in table.header
        if re.fullmatch(pattern, bare(one))
        for other in table.header
        if bare(other) in partners(bare(one), swaps)
    )
    if not boxes and named:
        return (*named[0], "their names")
    if boxes:
        for pair in named:
            if share_within(table, pair, boxes) > MOSTLY:
                return (*pair, "their names and the range of the polygon")
        for pair in fitting((other, one) for one, other in named):
            if share_within(table, pair, boxes) > MOSTLY:
                check_order(table, pair, boxes, given=(x, y) == pair)
                return (*pair, "the range of the polygon: swapped against their names")
        numeric = [name for name in table.header if is_numeric(table, name)]
        either = combinations if x is None and y is None else permutations
        for pair in fitting(either(numeric, 2)):
            if share_within(table, pair, boxes) > MOSTLY:
                return (*pair, "the range of the polygon")
        best = max(named, key=lambda pair: share_within(table, pair, boxes), default=None)
        if best is not None:
            return (*best, "their names")
    result = ", ".join(table.header)
    if x is not None or y is not None:
        option, lacking = ("--x", "--y") if y is None else ("--y", "--x")
        raise FileFormatError(
            f"{table.path}: no column goes with {x or y}, named by {option}, among {result}: name "
            f"it by {lacking}."
        )
    raise FileFormatError(
        f"{table.path}: no two columns look like coordinates among {result}: name them by --x and "
        "--y or, where another table holds them, that table by --sites."
    )


def check_order(
    table: TextTable, pair: tuple[str, str], boxes: Sequence[Box], *, given: bool
) -> None:
    """Raise where columns say longitude and latitude, and a polygon in degrees the reverse."""
    if not given and re.fullmatch(DEGREES, bare(pair[1])) and could_be_degrees(boxes[0]):
        raise FileFormatError(
            f"{table.path}: {pair[1]} and {pair[0]} are longitude and latitude by their names, but "
            "the polygon has latitude first: write its coordinates as longitude, latitude, as maps "
            f"do or, where the columns are named wrongly, give --x {pair[0]} --y {pair[1]}."
        )


def partners(name: str, swaps: Mapping[str, str]) -> set[str]:
    """What the column along the other axis may be called: the word may stand first or last."""
    result = set()
    for first, second in swaps.items():
        result |= {name.replace(first, second, 1), second.join(name.rsplit(first, 1))}
    return (result | {one.replace("é", "e") for one in result}) - {name}


def share_within(table: TextTable, pair: tuple[str, str], boxes: Sequence[Box]) -> float:
    """Of rows with places in one of the boxes, whichever holds most."""
    places = places_in(table, pair)
    return max(float(np.mean(((places >= b[0]) & (places <= b[1])).all(axis=1))) for b in boxes)


def places_in(table: TextTable, pair: tuple[str, str]) -> Float[np.ndarray, "row 2"]:
    """Places, NaN where there are none."""
    return np.column_stack([table.floats(name) for name in pair])


def is_numeric(table: TextTable, name: str) -> bool:
    if not name or table.header.count(name) > 1:
        return False
    return float(np.mean(np.isfinite(table.floats(name, limits=True)))) > MOSTLY


def is_constant(table: TextTable, name: str) -> bool:
    """Whether all numbers of a column are the same: there is nothing to map."""
    return len({cell for cell in table.cells(name) if not is_none(cell)}) == 1


def counts_rows(table: TextTable, name: str) -> bool:
    """Whether each number of a column is one more than that before."""
    return table.num_rows > 1 and bool((np.diff(table.floats(name)) == 1).all())


def columns_of_place(table: TextTable, axes: tuple[str, str]) -> list[str]:
    """Columns that name places, whatever they are called: each of their cells has one place.

    There are none where no place has several rows. Words may tell wells of one place apart;
    numbers, which may be depths or levels, must have one place each and one for each place.
    """
    numbers = places_in(table, axes)
    table = table.select(np.asarray(np.isfinite(numbers).all(axis=1)))
    places = [tuple(place) for place in numbers.tolist() if np.isfinite(place).all()]
    count = len(set(places))
    if count in (0, 1, len(places)):
        return []
    columns = {
        name: table.cells(name)
        for name in table.header
        if name and name not in axes and table.header.count(name) == 1
    }
    result = []
    for name, cells in columns.items():
        if any(not cell or AS_FLOAT.fullmatch(cell) for cell in cells):
            continue
        names, words = len({*cells}), not is_numeric(table, name)
        most = (count + len(places)) / 2 if words else count
        if count <= names <= most and len({*zip(cells, places, strict=True)}) == names:
            result.append((not words, names, name))
    return [name for *_, name in sorted(result, key=lambda one: one[:2])]


def value_column(
    table: TextTable, taken: tuple[str, str], of_place: Sequence[str] = ()
) -> tuple[str, str]:
    """A column of numbers that is called as values are, or the first that is not something else.

    What tells places apart is something else, unless there is nothing left.
    """
    numeric = [
        name
        for name in table.header
        if name not in taken and is_numeric(table, name) and not is_constant(table, name)
    ]
    numeric = [name for name in numeric if not counts_rows(table, name)]
    for name in numeric:
        if re.fullmatch(VALUES, bare(name)):
            return name, "its name"
    left = [name for name in numeric if not re.fullmatch(NO_VALUES, bare(name))]
    left = [name for name in left if name not in of_place] or left
    if left:
        others = f", of {', '.join(left)}" if len(left) > 1 else ""
        return left[0], f"being the first column of numbers{others}"
    raise FileFormatError(
        f"{table.path}: no column is left for the values. It has {describe_columns(table, taken)}; "
        "looked for numbers in more than half of the rows, under a name that is none of "
        "identifiers, dates or errors. Name the column of values by --value."
    )


def describe_columns(table: TextTable, taken: tuple[str, str]) -> str:
    """What each column was taken for."""
    result = [
        f"{name or 'one without a name'} ({kind_in(table, name, taken)})" for name in table.header
    ]
    more = len(result) - MOST_TOLD
    return ", ".join([*result[:MOST_TOLD], *([f"and {more} more"] if more > 0 else [])])


def kind_in(table: TextTable, name: str, taken: tuple[str, str]) -> str:
    if name in taken:
        return "a coordinate"
    if table.header.count(name) > 1:
        return "several of that name"
    if is_numeric(table, name) and is_constant(table, name):
        return "the same number in all rows"
    if is_numeric(table, name) and counts_rows(table, name):
        return "numbers of rows"
    if is_numeric(table, name):
        return "numbers, not values by its name"
    return without_numbers([cell for cell in table.cells(name) if cell])


def without_numbers(cells: Sequence[str]) -> str:
    """What the cells of a column have that is no column of numbers."""
    if not cells:
        return "empty"
    others = [cell for cell in cells if not np.isfinite(number_or_limit(cell))]
    few = "few" if len(others) < len(cells) else "no"
    return f"{few} numbers: {others[0][:MOST_SHOWN]!r}" if others else "few numbers, most are empty"
