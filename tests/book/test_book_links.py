"""Links of the pages lead somewhere, in the repository and in the book."""

import re
from pathlib import Path, PurePosixPath

import pytest

from book.markdown_links import anchors, broken_links, slug, targets
from book.outside import files_taken_in, links_out, place_in_book, titled, with_links_inside

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "paper" / "docs").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_anchors_of_a_page_resolve(page):
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_every_page_is_in_the_table_of_contents(page):
    contents = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert re.search(rf"[ :/]{re.escape(page.name)}$", contents, re.M), (
        f"name {page.name} below nav in mkdocs.yml"
    )


def test_every_page_is_reached_by_links_from_the_readme():
    found, left = set(), [PAGES[0].resolve()]
    while left:
        page = left.pop()
        if page not in found and page.suffix == ".md" and page.is_file():
            found.add(page)
            names = (target.partition("#")[0] for target in targets(page.read_text()))
            left += [(page.parent / name).resolve() for name in names if name]
    assert sorted(page.name for page in PAGES if page.resolve() not in found) == []


def test_a_missing_file_and_a_missing_heading_are_told(tmp_path):
    (tmp_path / "other.md").write_text("# Other\n\n## A heading\n")
    page = tmp_path / "page.md"
    page.write_text("[a](gone.md) [b](other.md#a-heading) [c](other.md#no) [d](#top)\n")
    assert broken_links(page) == [
        "page.md: gone.md is not there",
        "page.md: other.md#no: the page has no such heading",
        "page.md: #top: the page has no such heading",
    ]


def test_links_in_code_and_to_other_sites_are_not_read():
    page = "```python\nx[i](y)\n```\n`a[0](b)` [c](d.md) ![p](e.png) [s](https://example.org)\n"
    assert targets(page) == ["d.md", "e.png"]


def test_anchors_are_those_of_code_hosts():
    page = "# What `epsilon_rel` means\n## Same\n## Same\n```sh\n# no heading\n```\n## Trust it?\n"
    assert anchors(page) == {"what-epsilon_rel-means", "same", "same-1", "trust-it"}
    assert slug("Theory, and our corrections") == "theory-and-our-corrections"


def test_files_of_the_repository_find_their_place_in_the_book():
    def place(path, *, is_folder=False):
        return place_in_book(PurePosixPath(path), is_folder=is_folder)

    assert place("paper/results/jura/table.md") == "paper/results/jura/table.md"
    assert place("CHANGELOG.md") == "project/CHANGELOG.md"
    assert place("paper/results/field", is_folder=True) == "benchmarks.md#field"
    assert place("examples/tutorials/jura.py") == "tutorials/jura.md"
    with pytest.raises(ValueError, match="link to a file in it"):
        place("examples/aquifer", is_folder=True)


def test_links_out_of_the_pages_are_led_into_the_book():
    origin = PurePosixPath("docs/misspecified.md")
    text = "[rows](../paper/results/taper/results.json) [all](../paper/results/field) [p](e.md)"
    assert with_links_inside(text, origin, "misspecified.md", ROOT) == (
        "[rows](paper/results/taper/results.json) [all](benchmarks.md#field) [p](e.md)"
    )
    assert with_links_inside("[log](../../CHANGELOG.md)", origin / "x", "a/x.md", ROOT) == (
        "[log](../project/CHANGELOG.md)"
    )
    assert files_taken_in({origin: text}, ROOT) == {
        PurePosixPath("paper/results/taper/results.json")
    }
    assert links_out("[gone](../results/gone.json)", origin, ROOT) == {}


def test_pages_of_the_paper_link_to_those_of_the_product_and_to_their_results():
    page = "paper/docs/jura.md"
    text = "[a](../../docs/time.md#engines) [b](../results/jura/table.md) [c](data.md)"
    assert with_links_inside(text, PurePosixPath(page), page, ROOT) == (
        "[a](../../time.md#engines) [b](../results/jura/table.md) [c](data.md)"
    )


def test_a_table_of_results_gets_a_heading():
    assert titled("| a |\n", PurePosixPath("results/t.md")) == "# results/t.md\n\n| a |\n"
    assert titled("# Log\n", PurePosixPath("CHANGELOG.md")) == "# Log\n"
