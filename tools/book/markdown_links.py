"""Links and anchors of Markdown pages, and whether they resolve."""

import re
from pathlib import Path

FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", flags=re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", flags=re.MULTILINE)
OWN_ANCHOR = re.compile(r"\s*\{\s*#([\w-]+)\s*\}$")
ELSEWHERE = ("http://", "https://", "mailto:")


def targets(page: str) -> list[str]:
    """Where the links and pictures of a page lead, but for other sites; code is not read."""
    prose = CODE.sub("", FENCE.sub("", page))
    found = (match[2] for match in LINK.finditer(prose))
    return [target for target in found if not target.startswith(ELSEWHERE)]


def anchors(page: str) -> set[str]:
    """The names of a page's headings, made as code hosts and this book's builder make them."""
    names: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", page)):
        own = OWN_ANCHOR.search(heading)
        name, count = own[1] if own else slug(heading), 0
        while (name if not count else f"{name}-{count}") in names:
            count += 1
        names.add(name if not count else f"{name}-{count}")
    return names


def slug(heading: str) -> str:
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    """One line for each link of a file that leads nowhere."""
    found = []
    for target in targets(page.read_text()):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists():
            found.append(f"{page.name}: {target} is not there")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            found.append(f"{page.name}: {target}: the page has no such heading")
    return found
