"""The README's Python and that of the pages of docs run as printed."""

import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
README, ENGINES_PAGE = ROOT / "README.md", ROOT / "docs" / "engines.md"
PLUG_IN_PAGE, API_PAGE = ROOT / "docs" / "plug-in.md", ROOT / "docs" / "api.md"
MEASURED_PAGE = ROOT / "docs" / "measured.md"


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mcmc:UserWarning")
def test_the_example_of_the_readme_runs(capsys):
    (block,) = blocks_of(README)
    exec(compile(block, "README.md", "exec"), {})
    assert "a " in capsys.readouterr().out


def test_the_equations_of_the_reference_are_solved():
    first, integrand, _ = blocks_of(API_PAGE)
    scope = {}
    for block in (first, integrand):
        exec(compile(block, "api.md", "exec"), scope)
    assert scope["u"].max() > 0
    assert abs(scope["gradient"]) > 1e-3
    problem = scope["rz"].boundary_value_problem(
        scope["rz"].P1(scope["mesh"]), scope["nonlinear"], {"outer": 0.0}
    )
    assert scope["rz"].solve(problem).max() > 0


def figures() -> dict[str, str]:
    """Rows of the README's table of claims, by the result file that each cites."""
    rows = re.findall(r"^\| .* \| (.*?) \(\[rows\]\((.*?)\)\) \|$", README.read_text(), flags=re.M)
    return {place: claim for claim, place in rows}


def result(place: str) -> dict:
    return json.loads((ROOT / place).read_text(encoding="utf-8"))


def test_the_figures_of_the_readme_are_those_of_the_result_files():
    blind, transport, steps, aquifer = map(result, figures())
    counts = blind["summary"]
    worst = transport["summary"]["emulate, square, 4225 nodes: worst mean error (sd)"]
    milliseconds = [
        1e3 * row["seconds_per_step"]
        for nodes in (1681, 1_050_625)
        for row in steps["rows"]
        if row["nodes"] == nodes and row["precision"] == "float64"
    ]
    scores = aquifer["summary"]
    assert list(figures().values()) == [
        f"{counts['silent']} silent failures, {counts['crashes']} crashes, "
        f"{counts['false_alarms']} false alarms of {counts['judged']} judged",
        f"mean off by {worst:.3f} posterior sd at worst",
        "{:.1f} and {:.1f} ms".format(*milliseconds),
        f"heads right to {scores['head_error_m']:.1f} m; "
        f"95 % intervals hold {100 * scores['head_coverage']:.0f} % of them",
    ]


def test_the_readme_names_both_commands():
    text = README.read_text()
    assert "make demo" in text
    assert "make test" in text


@pytest.mark.slow
def test_the_loss_of_the_page_on_the_plug_in_is_a_number_to_differentiate():
    scope = {"jax": jax, "epsilon": 0.1, "misfit": lambda params: params**2}
    scope["net"] = lambda params, x, tau: params * jnp.prod(x * (1 - x)) * (1 + tau[0])
    (block,) = blocks_of(PLUG_IN_PAGE)
    exec(compile(block, "plug-in.md", "exec"), scope)
    slope = eqx.filter_jit(jax.grad(scope["loss"]))(1.0, jax.random.key(0), scope["penalty"])
    assert abs(slope) > 0


def test_the_problems_of_the_page_on_engines_are_built():
    first, _, boundary = blocks_of(ENGINES_PAGE)
    scope = {}
    for block in (first, boundary):
        exec(compile(block, "engines.md", "exec"), scope)
    assert scope["problem"].latents.names == ("a",)
    assert scope["open_problem"].latents.names == ("a", "u_boundary")
    assert scope["open_problem"].num_coordinates == 1 + 6 + 3


FEWER = {
    "is_training)": "is_training & (np.arange(359) % 4 == 0))",
    "max_edge=0.25": "max_edge=0.8",
}
"""A quarter of the samples and a coarse mesh."""


# Quickly, the regression is tested with the paper.
@pytest.mark.slow
@pytest.mark.parametrize("fewer", [FEWER, {}])
def test_the_model_of_the_page_on_the_jura_predicts_at_the_places_that_were_left_out(fewer):
    scope = {"np": np}
    (block,) = blocks_of(ROOT / "paper" / "docs" / "jura.md")
    for old, new in fewer.items():
        assert old in block
        block = block.replace(old, new, 1)
    exec(compile(block, "jura.md", "exec"), scope)
    truth = scope["others"].metals["Cd"]
    errors = abs(np.median(scope["draws"], axis=0) - truth)
    # from zinc alone; the median of all samples would be off by 0.7
    assert errors.mean() < 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:mcmc:UserWarning")  # a page shows fewer draws than one needs
def test_the_engines_of_the_page_agree_as_it_says():
    first, fits, _ = blocks_of(ENGINES_PAGE)
    scope = {}
    for block in (first, fits):
        exec(compile(block, "engines.md", "exec"), scope)
    exact, trained, doubted = (scope[name] for name in ("exact", "trained", "doubted"))
    assert abs(trained.mean("a") - exact.mean("a")) < 0.5 * exact.sd("a")
    assert doubted.sd("a") > 1.1 * trained.sd("a")


@pytest.mark.slow
def test_what_can_be_measured_is_put_together_as_printed():
    scope = {}
    for block in blocks_of(MEASURED_PAGE):
        exec(compile(block, MEASURED_PAGE.name, "exec"), scope)
    assert [len(scope[name].observed) for name in ("problem", "robust", "shared")] == [4, 2, 4]
    assert "double exponential, scale 0.01" in scope["robust"].describe()

    # At the median of the prior, by the formula of the density.
    @eqx.filter_jit
    def density_and_values(problem):
        here = jnp.zeros(1)
        state = problem.state(here)
        return problem.log_likelihood(here, state), problem.predict(state, problem.z(here))

    found, seen = density_and_values(scope["robust"])
    misfit = np.abs(np.asarray(scope["robust"].observed) - np.asarray(seen))
    np.testing.assert_allclose(found, np.sum(-misfit / 0.01 - np.log(2 * 0.01)))
