"""What builds, tries and publishes the distributions agrees with what they say of themselves."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import release_smoke
import riesz

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES_OF_CONDA = {"matplotlib": "matplotlib-base"}


def steps(workflow):
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_there_is(workflow):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    asked = {word for one in commands if one.startswith("make ") for word in one.split()[1:]}
    assert asked <= targets
    folders = {word for one in commands for word in re.findall(r"\btests(?:/\w+)?", one)}
    assert all((ROOT / one).is_dir() for one in folders)
    extras = {
        name
        for one in commands
        for group in re.findall(r"\[([\w,]+)]", one)
        for name in group.split(",")
    }
    assert extras <= set(PROJECT["optional-dependencies"])


def test_every_python_that_is_named_is_tried():
    versions = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]["fast"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert versions["strategy"]["matrix"]["python"] == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_recipe_needs_what_the_distribution_does():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["app"]]
    parts = [re.fullmatch(r"([\w.-]+)(.*)", one) for one in asked]
    wanted = [f"{NAMES_OF_CONDA.get(one[1], one[1])} {one[2]}" for one in parts if one]
    assert recipe["requirements"]["run"] == [f"python {PROJECT['requires-python']}", *wanted]
    assert recipe["context"]["version"] == riesz.__version__


def test_all_parts_have_one_version():
    paper = tomllib.loads((ROOT / "paper/pyproject.toml").read_text())["project"]
    assert paper["version"] == riesz.__version__
    assert f"\nversion: {riesz.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_a_window_is_looked_at_as_after_a_release(tmp_path):
    command = Path(sys.executable).with_name("riesz")
    release_smoke.look_at_window(str(command), tmp_path)
    assert (tmp_path / "heads.csv").read_text() == release_smoke.TABLE
