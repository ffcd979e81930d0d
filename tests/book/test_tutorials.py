"""The tutorials run to their end, where each asserts its number."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from book.cells import cells_of, title_of

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = sorted((ROOT / "examples" / "tutorials").glob("*.py"))


def test_each_is_on_the_page_and_ends_with_an_assertion():
    page = (ROOT / "docs/tutorials.md").read_text()
    assert TUTORIALS
    for script in TUTORIALS:
        cells = cells_of(script.read_text())
        title = title_of(cells).split(":")[0]
        assert f"[{title}](../examples/tutorials/{script.name})" in page
        assert cells[-1].kind == "code"
        assert cells[-1].text.splitlines()[-1].startswith("assert ")


@pytest.mark.slow
@pytest.mark.parametrize("script", TUTORIALS, ids=lambda script: script.stem)
def test_a_tutorial_runs_to_its_end(script, tmp_path):
    command = [sys.executable, "-m", "book.execute", str(script), str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{script.stem}.json").exists()


@pytest.mark.slow
# Two short chains say so by chance, of one seed in three.
@pytest.mark.filterwarnings("ignore:mcmc. the chains do not agree yet")
def test_the_python_of_the_start_page_runs():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/index.md").read_text(), re.S)
    scope = {}
    exec(compile(block, "index.md", "exec"), scope)
    assert scope["posterior"].mean("a") > 0


def environment() -> dict[str, str]:
    import os

    paths = [str(ROOT / "tools"), str(ROOT / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "Agg"}
