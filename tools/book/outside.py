"""Pages link to files of the repository that are no pages: results, examples, the change log.

On a code host those links work as they are written. For the book the files are taken in, and the
links changed to where they then lie. Pages of `docs` lie at the top of the book, those of
`paper/docs` where the repository has them.
"""

import posixpath
from pathlib import Path, PurePosixPath

from book.markdown_links import LINK, targets

DOCS = "docs"
RESULTS_PAGE = "benchmarks.md"
TUTORIALS = PurePosixPath("examples/tutorials")


def place_in_book(path: PurePosixPath, *, is_folder: bool) -> str:
    """Where a file of the repository is in the book."""
    if path.parts[0] == DOCS:
        return str(path.relative_to(DOCS))
    if path.parent == TUTORIALS and path.suffix == ".py":
        return f"tutorials/{path.stem}.md"
    if is_folder:
        if path.parent.name != "results":
            raise ValueError(f"{path} is a folder: link to a file in it, or to results/NAME.")
        return f"{RESULTS_PAGE}#{path.name}"
    return str(path) if len(path.parts) > 1 else f"project/{path}"


def links_out(text: str, origin: PurePosixPath, root: Path) -> dict[str, PurePosixPath]:
    """Links of a page of the repository that leave its folder of pages, and where they lead."""
    found = {}
    for target in targets(text):
        name = target.partition("#")[0]
        path = PurePosixPath(posixpath.normpath(origin.parent / name))
        is_within = path.parts[0] == DOCS == origin.parts[0]
        if name and not is_within and (root / path).exists():
            found[target] = path
    return found


def with_links_inside(text: str, origin: PurePosixPath, page: str, root: Path) -> str:
    """The page with its links out changed to where those files are in the book."""
    moved = {
        target: relative(with_anchor(path, target, root), page)
        for target, path in links_out(text, origin, root).items()
    }
    return LINK.sub(lambda m: f"{m[1]}{moved.get(m[2], m[2])}{m[3]}", text)


def with_anchor(path: PurePosixPath, target: str, root: Path) -> str:
    """The place of a file in the book, and the heading that the link names."""
    place = place_in_book(path, is_folder=(root / path).is_dir())
    _, hash_sign, anchor = target.partition("#")
    return place if "#" in place else f"{place}{hash_sign}{anchor}"


def relative(place: str, page: str) -> str:
    name, hash_sign, anchor = place.partition("#")
    return posixpath.relpath(name, posixpath.dirname(page) or ".") + hash_sign + anchor


def files_taken_in(pages: dict[PurePosixPath, str], root: Path) -> set[PurePosixPath]:
    """All files, not folders, tutorials or pages, that pages of the repository link to."""
    return {
        path
        for origin, text in pages.items()
        for path in links_out(text, origin, root).values()
        if not (root / path).is_dir() and path.parent != TUTORIALS and path not in pages
    }


def titled(text: str, path: PurePosixPath) -> str:
    """With a heading, which tables of results have not."""
    return text if text.lstrip().startswith("# ") else f"# {path}\n\n{text}"
