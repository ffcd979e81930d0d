"""A command and the method that it calls take the same, which is written down once."""

import inspect
import subprocess
import sys
from typing import get_type_hints

import pytest
from click import Context
from typer.main import get_command

from riesz.case import options as models
from riesz.case.file.problem import Case
from riesz.case.run.compare import compare_runs
from riesz.case.run.folder import Run
from riesz.case.start.starter import write_first_problem
from riesz.cli.main import app
from riesz.cli.options import option_in
from riesz.errors import RieszError

EVERY = {
    "init": (models.InitOptions, write_first_problem),
    "fit": (models.FitOptions, Case.fit),
    "check": (models.CalibrationOptions, Case.calibrate),
    "predict": (models.PredictOptions, Run.predict),
    "report": (models.ReportOptions, Run.report),
    "next": (models.NextOptions, Run.next),
    "compare": (models.CompareOptions, compare_runs),
}


def options_in(model):
    """Fields that the command line has."""
    every = {
        name: option_in(hint) for name, hint in get_type_hints(model, include_extras=True).items()
    }
    return {name: option for name, option in every.items() if option is not None}


@pytest.mark.parametrize(("name", "pair"), EVERY.items(), ids=EVERY)
def test_an_option_is_an_argument_of_the_method_with_the_help_of_its_field(name, pair):
    model, method = pair
    group = get_command(app)
    command = group.get_command(Context(group), name)
    own = {one.name: one for one in command.params}
    taken = inspect.signature(method).parameters
    for field, option in options_in(model).items():
        assert own[field].help == option.help
        assert taken[field].default == inspect.signature(model).parameters[field].default
    assert set(taken) - {next(iter(taken))} == set(inspect.signature(model).parameters)


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        (models.PredictOptions, {"num_draws": 1}, "num_draws is 1: it should be greater than"),
        (models.ReportOptions, {"seed": -1}, "seed is -1: it should be greater than or equal to 0"),
        (models.NextOptions, {"count": 0}, "count is 0: it should be"),
        (models.PredictOptions, {"stat": 3}, "stat is 3: it should be a valid string"),
        (models.FitOptions, {"out": "run", "check": "perhaps"}, "check is 'perhaps'"),
    ],
)
def test_a_value_out_of_bounds_is_told_in_one_line(model, words, message):
    with pytest.raises(RieszError, match=message) as refusal:
        models.validate(model, **words)
    assert "\n" not in str(refusal.value)


def test_a_method_knows_its_arguments_by_name():
    run = object.__new__(Run)
    with pytest.raises(TypeError, match="colour"):
        run.report(colour="red")
    with pytest.raises(RieszError, match="num_draws is 2"):
        run.report(num_draws=2)


def test_help_waits_for_no_validation():
    words = "import sys, riesz.cli.options, riesz.case.options; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert not {"pydantic", "numpy", "jax"} & set(told.stdout.split())
