"""Tutorials in the percent format become cells, notebooks and pages."""

import json

import pytest

from book.cells import Cell, cells_of, title_of
from book.execute import Output, Run, digest_of, read_run, run, write_run
from book.notebook import notebook
from book.tutorial_page import pictures, tutorial_page

SCRIPT = """# %% [markdown]
# # Two and two
#
# See [the other page](../engines.md) and [a site](https://example.org).

# %%
total = 2 + 2
print(f"total: {total}")

# %% [markdown]
# Then:

# %%
total * 10
"""


class Drawing:
    def savefig(self, file, **settings):
        file.write(b"PNG")


def test_prose_loses_its_comment_signs_and_code_stays():
    first, code, *_ = cells_of(SCRIPT)
    assert first.text.startswith("# Two and two\n\nSee [the other page]")
    assert code == Cell("code", 'total = 2 + 2\nprint(f"total: {total}")')
    assert title_of(cells_of(SCRIPT)) == "Two and two"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import jax\n", "begins with the line"),
        ("# %% [md]\n# text\n", "a cell is marked by"),
        ("# %% [markdown]\nno comment sign\n", "begins with #"),
    ],
)
def test_what_is_no_tutorial_is_refused(script, message):
    with pytest.raises(ValueError, match=message):
        cells_of(script)


def test_a_tutorial_without_a_heading_is_refused():
    with pytest.raises(ValueError, match="begins with a heading"):
        title_of(cells_of("# %%\nx = 1\n"))


def test_a_run_keeps_what_is_printed_and_shows_the_last_line_of_a_cell():
    done = run(SCRIPT, "two")
    assert [output.text for output in done.outputs] == ["total: 4\n", "40\n"]


def test_a_figure_at_the_end_of_a_cell_is_a_picture_of_the_page():
    script = SCRIPT.replace("total * 10", "figure")
    cells = cells_of(script)
    outputs = (Output("total: 4\n", ()), Output("", ("UE5H",)))
    done = Run(digest_of(script), 1.0, outputs)
    page = tutorial_page("two", cells, done)
    assert "![Two and two, figure 1](two-1.png)" in page
    assert pictures("two", done) == {"two-1.png": "UE5H"}


def test_a_figure_is_saved_and_not_written_out(monkeypatch):
    monkeypatch.setattr("builtins.Drawing", Drawing, raising=False)
    (output,) = run("# %%\nfigure = Drawing()\nfigure\n", "drawing").outputs
    assert output == Output("", ("UE5H",))


def test_a_failing_assertion_ends_the_run_with_its_cell_named():
    with pytest.raises(AssertionError) as raised:
        run(f"{SCRIPT}\n# %%\nassert total == 5\n", "two")
    assert raised.traceback[-1].path is None or "cell 3" in str(raised.traceback[-1])


def test_outputs_of_another_version_of_the_script_are_refused(tmp_path):
    path = tmp_path / "runs" / "two.json"
    with pytest.raises(FileNotFoundError, match="run the tutorials first"):
        read_run(path, SCRIPT)
    write_run(path, run(SCRIPT, "two"))
    assert read_run(path, SCRIPT).outputs == run(SCRIPT, "two").outputs
    with pytest.raises(ValueError, match="another version"):
        read_run(path, f"{SCRIPT}\n")


def test_the_page_shows_prose_code_and_output_in_order():
    page = tutorial_page("two", cells_of(SCRIPT), run(SCRIPT, "two"))
    order = ["# Two and two", "notebooks/two.ipynb", "total = 2 + 2", "total: 4", "Then:", "40"]
    places = [page.index(part) for part in order]
    assert places == sorted(places)


def test_a_notebook_has_every_cell_and_its_output_but_no_links_into_the_book():
    found = json.loads(notebook(cells_of(SCRIPT), run(SCRIPT, "two").outputs))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    kinds = [cell["cell_type"] for cell in found["cells"]]
    assert kinds == ["code", "markdown", "code", "markdown", "code"]
    assert len({cell["id"] for cell in found["cells"]}) == 5
    prose = "".join(found["cells"][1]["source"])
    assert "See the other page and [a site](https://example.org)." in prose
    (stream,) = found["cells"][2]["outputs"]
    assert stream["text"] == ["total: 4\n"]
    assert [c["execution_count"] for c in found["cells"] if c["cell_type"] == "code"] == [1, 2, 3]
