"""The page of a tutorial: its prose, its code, and what that printed and drew."""

from book.cells import Cell, title_of
from book.execute import Output, Run


def tutorial_page(name: str, cells: tuple[Cell, ...], done: Run) -> str:
    """Markdown; pictures are those of `picture_names`."""
    heading, *prose = cells[0].text.splitlines()
    left = iter(done.outputs)
    parts = [heading, offer(name, done.seconds), "\n".join(prose).strip()]
    number = 0
    for cell in cells[1:]:
        if cell.kind == "markdown":
            parts.append(cell.text)
            continue
        output = next(left)
        parts += [f"```python\n{cell.text}\n```", *printed(output)]
        for _ in output.pictures:
            number += 1
            parts.append(f"![{title_of(cells)}, figure {number}]({picture_name(name, number)})")
    return "\n\n".join(part for part in parts if part) + "\n"


def offer(name: str, seconds: float) -> str:
    return (
        f"*This page is a program that was run when the book was made ({seconds:.0f} seconds): "
        f"[the script](../examples/tutorials/{name}.py), "
        f"[the notebook](../notebooks/{name}.ipynb).*"
    )


def printed(output: Output) -> list[str]:
    text = output.text.strip("\n")
    return [f'```text title="Output"\n{text}\n```'] if text else []


def picture_name(name: str, number: int) -> str:
    return f"{name}-{number}.png"


def pictures(name: str, done: Run) -> dict[str, str]:
    """All pictures of a tutorial by file name, in base64."""
    found = [picture for output in done.outputs for picture in output.pictures]
    return {picture_name(name, i): picture for i, picture in enumerate(found, 1)}
