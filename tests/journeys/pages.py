"""The commands that README and the pages of docs and of paper/docs print."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "paper" / "docs").glob("*.md")),
]


def command_lines(page: Path, below: str = "") -> list[str]:
    """Those of all blocks of a page in order, put together where they are continued; below a
    heading, where one is given."""
    text = page.read_text(encoding="utf-8")
    assert below in text
    blocks = re.findall(r"```sh\n(.*?)```", text.partition(below)[2] if below else text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    commands = [re.sub(r"\s+#.*", "", line).strip() for line in lines]
    return [" ".join(command.split()) for command in commands if command]


def printed_file(page: Path, first_line: str) -> str:
    """The block of TOML whose first line begins so."""
    blocks = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(first_line)]
    return block
