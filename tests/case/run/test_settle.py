"""A problem file that leaves it to the data whether neighbours share anything."""

import numpy as np
import pytest
from tests.case.data.test_problem_data import BODY, WELLS, with_keys, written

from riesz.case.file.problem import read_problem
from riesz.case.run import settle
from riesz.engines.conditional.compare import KRIGING, WITH, WITHOUT, Comparison
from riesz.engines.conditional.engine import Conditional
from riesz.engines.nuts.engine import Nuts


@pytest.fixture
def case(tmp_path):
    comment = '# local = "auto" leaves it to the data'
    body = with_keys("observations", f'{comment}\nlocal = "auto"   # decide')
    return read_problem(written(tmp_path, body, WELLS.replace("<1.5", "1.5")))


def found_best(best):
    scores = {name: np.arange(5.0) for name in (WITH, WITHOUT, KRIGING)}
    return lambda problem, local: Comparison(scores | {best: scores[best] + 1.0})


def test_what_is_decided_stands_in_the_text_that_a_run_keeps(case, monkeypatch):
    assert "local" in case.problem.latents.names
    monkeypatch.setattr(settle, "compared", found_best(WITH))
    kept = settle.settled(case, Conditional())
    assert b"\nlocal = true   # decide" in kept.content
    assert kept.problem is case.problem
    assert kept.remarks[0].startswith("with what neighbours share")
    monkeypatch.setattr(settle, "compared", found_best(WITHOUT))
    dropped = settle.settled(case, Conditional())
    assert b"\nlocal = false   # decide" in dropped.content
    assert dropped.problem.latents.names == ("f",)
    assert dropped.remarks[0].startswith("without what neighbours share")


def test_engines_without_a_closed_form_keep_it(case):
    kept = settle.settled(case, Nuts())
    assert kept.tables.observations.local is True
    assert "found out by conditional alone" in kept.remarks[0]


def test_what_the_file_decides_stays(tmp_path):
    plain = read_problem(written(tmp_path, BODY, WELLS.replace("<1.5", "1.5")))
    assert settle.settled(plain, Conditional()) is plain
