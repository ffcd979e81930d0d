"""What the book's builder calls: takes in pages that are made, not written.

`mkdocs build` finds this file by `mkdocs.yml`. The tutorials must have been run (`make docs`).
"""

import base64
import sys
from pathlib import Path, PurePosixPath
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mkdocs.structure.files import File

from book.cells import cells_of
from book.engine_settings import settings_tables
from book.execute import read_run
from book.maths import with_mathml
from book.notebook import notebook
from book.outside import files_taken_in, place_in_book, titled, with_links_inside
from book.public_names import exports, public_names
from book.reference import LAYERS, check_complete, reference_page
from book.results_page import result_files, results_section
from book.tutorial_page import pictures, tutorial_page

ROOT = Path(__file__).parent.parent
TUTORIALS = ROOT / "examples" / "tutorials"
RUNS = ROOT / "out" / "tutorials"
RESULTS_MARK = "<!-- results -->"
PAPER_PAGES = PurePosixPath("paper/docs")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of tutorials and of the reference, and files that pages link to."""
    pages: dict[PurePosixPath, str] = {}
    for file in files.documentation_pages():
        if file.src_uri == "benchmarks.md":
            file.content_string = with_results(file.content_string)
        pages[PurePosixPath("docs") / file.src_uri] = file.content_string
    for path in sorted((ROOT / PAPER_PAGES).glob("*.md")):
        place, text = PAPER_PAGES / path.name, path.read_text()
        files.append(File.generated(config, str(place), content=text))
        pages[place] = text
    for script in sorted(TUTORIALS.glob("*.py")):
        for place, content in tutorial_files(script).items():
            files.append(File.generated(config, place, content=content))
    for place, content in reference_pages().items():
        files.append(File.generated(config, place, content=content))
    for path in sorted(files_taken_in(pages, ROOT)):
        place = place_in_book(path, is_folder=False)
        if path.suffix == ".md":
            content = titled((ROOT / path).read_text(), path)
            files.append(File.generated(config, place, content=content))
        else:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to files of the repository to where the book has them."""
    place = PurePosixPath(page.file.src_uri)
    origin = place if place.parent == PAPER_PAGES else PurePosixPath("docs") / place
    return with_links_inside(markdown, origin, page.file.src_uri, ROOT)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    return with_mathml(html)


def with_results(page: str) -> str:
    if RESULTS_MARK not in page:
        raise ValueError(f"docs/benchmarks.md has no line {RESULTS_MARK!r} for the results.")
    return page.replace(RESULTS_MARK, results_section(result_files(ROOT)))


def tutorial_files(script: Path) -> dict[str, str | bytes]:
    """Page, pictures, notebook and script of a tutorial, by their places in the book."""
    name, text = script.stem, script.read_text()
    cells, done = cells_of(text), read_run(RUNS / f"{script.stem}.json", text)
    found: dict[str, str | bytes] = {
        f"tutorials/{name}.md": tutorial_page(name, cells, done),
        f"notebooks/{name}.ipynb": notebook(cells, done.outputs),
        f"examples/tutorials/{name}.py": text,
    }
    for place, picture in pictures(name, done).items():
        found[f"tutorials/{place}"] = base64.b64decode(picture)
    return found


def reference_pages() -> dict[str, str]:
    package = ROOT / "src" / "riesz"
    public = public_names(package / "__init__.pyi")
    check_complete(public)
    exported = {
        module: exports(package / module.removeprefix("riesz.") / "__init__.py")
        for layer in LAYERS.values()
        for module in layer.modules
    }
    pages = {
        f"api/{name}.md": reference_page(layer, public, exported) for name, layer in LAYERS.items()
    }
    pages["api/engines.md"] += f"\n{settings_tables()}\n"
    return pages
