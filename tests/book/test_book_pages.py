"""Pages of the book that are made: the reference and the benchmarks."""

import json
import re
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median

import pytest

import riesz
from book.engine_settings import MEANING, settings_of, settings_tables
from book.public_names import exports, public_names
from book.reference import LAYERS, check_complete, reference_page
from book.results_page import (
    cell,
    columns_of,
    pivoted,
    read,
    result_files,
    results_section,
    shortened,
)
from riesz.inference.table import DENSITIES, METHODS

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "riesz"


def test_public_names_are_read_as_the_package_has_them():
    names = public_names(PACKAGE / "__init__.pyi")
    assert {name for group in names.values() for name in group} <= set(riesz.__all__)
    assert names["riesz.penalty.penalty"] == ("weak_form_penalty",)


def test_every_public_name_has_a_page_of_the_reference():
    public = public_names(PACKAGE / "__init__.pyi")
    check_complete(public)
    modules = {module for layer in LAYERS.values() for module in layer.modules}
    exported = {
        m: exports(PACKAGE / m.removeprefix("riesz.") / "__init__.py") for m in sorted(modules)
    }
    pages = "".join(reference_page(layer, public, exported) for layer in LAYERS.values())
    for module, names in public.items():
        for name in names:
            assert f"::: {module}.{name}\n" in pages
    with pytest.raises(ValueError, match="holds quantum"):
        check_complete({"riesz.quantum.leap": ("leap",)})


@pytest.mark.parametrize(
    "module", ["riesz.diagnose", "riesz.io", "riesz.plot", "riesz.mesh", "riesz.case"]
)
def test_exports_of_a_subpackage_are_all_that_it_offers(module):
    found = exports(PACKAGE / module.removeprefix("riesz.") / "__init__.py")
    offered = import_module(module)
    assert sorted(found) == sorted(offered.__all__)
    for name, place in found.items():
        assert getattr(import_module(place.rpartition(".")[0]), name) is getattr(offered, name)


def test_every_result_file_has_a_section_with_its_origin():
    files = result_files(ROOT)
    page = results_section(files)
    for file in files:
        assert f"\n## {file.name}\n" in f"\n{page}"
        assert f"`{file.content['command']}`, seed {file.content['seed']}" in page
        assert f"(../{file.place})" in page


def test_every_setting_of_every_method_and_density_has_its_default_and_its_meaning():
    page, parts = settings_tables(), (*METHODS, *DENSITIES)
    for part in parts:
        assert f"## Settings of `{part}`" in page
    kept = {name for part in parts for name in settings_of(part)}
    assert kept == set(MEANING)
    assert "| `target_accept` | `0.8` | acceptance rate; higher where transitions diverge |" in page


def test_a_summary_becomes_tables_with_a_row_a_group():
    summary = {"rows": 3, "worst": 0.5, "a: error": 1.0, "a: ratio": 2.0, "b: error": 3.0}
    summary |= {"b: ratio": 0.123456, "c: error": 4.0}
    assert pivoted(summary) == [
        (["", "value"], [["worst", "0.5"]]),
        (["", "error", "ratio"], [["a", "1", "2"], ["b", "3", "0.1235"]]),
        (["", "error"], [["c", "4"]]),
    ]


def test_cells_are_short_and_lists_have_no_column():
    assert [cell(v) for v in (None, True, 0.12345, 1050625, [1, 2.5], "a|b")] == [
        "", "yes", "0.1235", "1,050,625", "1, 2.5", "a\\|b",
    ]  # fmt: skip
    assert columns_of([{"a": 1, "b": [1]}, {"c": 2}]) == ["a", "c"]
    assert shortened("7d05d279fbda831c0695-modified") == "7d05d279fb-modified"


def test_a_file_that_is_no_result_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"rows": []}')
    with pytest.raises(ValueError, match="lacks command, commit"):
        read(path)


CROSSOVER = (
    ("quadrature", "cpu_seconds"),
    ("nuts-sparse", "cpu_seconds_ess400"),
    ("nuts-dense", "cpu_seconds_ess400"),
    ("emulate", "cpu_seconds"),
    ("emulate", "compile_cpu_seconds"),
)
"""Columns of the table of crossover points: methods and what is shown of them."""


def test_crossover_points_are_those_of_the_result_file():
    rows = json.loads((ROOT / "paper/results/transport/results.json").read_text())["rows"]
    table = re.findall(r"^\| (\d+) x \1 \|(.*)\|$", (ROOT / "docs/benchmarks.md").read_text(), re.M)
    assert [int(side) for side, _ in table] == [17, 33, 65, 129, 257]
    for side, cells in table:
        nodes = int(side) ** 2
        for (method, measure), shown in zip(CROSSOVER, cells.split("|"), strict=True):
            found = [
                row[measure]
                for row in rows
                if (row["method"], row["nodes"], row["domain"]) == (method, nodes, "square")
                and row[measure] is not None
            ]
            assert (shown.strip() == "") == (not found)
            if found:
                digits = shown.strip().replace(",", "")
                assert float(digits) == pytest.approx(median(found), abs=half_a_digit(digits))


def half_a_digit(number: str) -> float:
    """What rounding may have taken."""
    return 0.501 * 10.0 ** -len(number.partition(".")[2])


POSTERIORS = {"normal": "sources", "skewed": "skewed", "bent": "bent"}
METHOD_COLUMNS = ("laplace", "gaussian-vi", "mcmc", "mcmc, nuts")
GOOD = 0.05


def test_every_method_is_right_on_every_density_or_says_that_it_is_not():
    """And the table of the page is that of the result file."""
    rows = json.loads((ROOT / "results/bench-methods.json").read_text())["rows"]
    by_name = {(row["problem"], row["density"], row["method"]): row for row in rows}
    shown = re.findall(
        rf"^\| ({'|'.join(POSTERIORS)}) \| `([\w-]+)` \|(.*)\|$",
        (ROOT / "docs/engines.md").read_text(),
        re.M,
    )
    assert {(name, density) for name, density, _ in shown} == set(product(POSTERIORS, DENSITIES))
    for name, density, cells in shown:
        for method, text in zip(METHOD_COLUMNS, cells.split(" | "), strict=True):
            row = by_name[POSTERIORS[name], density, method]
            is_right = row["mean_error"] <= GOOD and row["sd_error"] <= GOOD
            assert is_right or row["flags"]
            figures = f"{row['mean_error']:.3f}, {100 * row['sd_error']:.1f}"
            assert text.strip() == (figures if is_right else f"({figures})")
