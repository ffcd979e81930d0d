"""The README's Python runs as printed."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_of_the_readme_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    scope = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["u"].max() > 0
    assert abs(scope["gradient"]) > 1e-3
    problem = scope["rz"].boundary_value_problem(
        scope["rz"].P1(scope["mesh"]), scope["nonlinear"], {"outer": 0.0}
    )
    assert scope["rz"].solve(problem).max() > 0
    assert scope["jax"].jit(scope["loss"])(0.1, scope["jax"].random.key(0)) > 0


def test_the_readme_names_both_commands():
    text = README.read_text()
    assert "make demo" in text
    assert "make test" in text
