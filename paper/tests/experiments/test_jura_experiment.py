"""The experiment `jura`: what is asked, what is chosen before scoring, and how it is scored."""

import json

import numpy as np
import pytest

from riesz.datasets.jura import CATEGORIES, SECONDARIES, jura, read_samples
from riesz.errors import FileFormatError, RieszError
from riesz_paper.experiments.jura.cases import (
    CASES,
    VALIDATION,
    Case,
    cases_of,
    check_samples,
    trained_on,
)
from riesz_paper.experiments.jura.experiment import jura_experiment
from riesz_paper.experiments.jura.published import published_tasks
from riesz_paper.experiments.jura.settings import (
    CANDIDATES,
    as_json,
    choices_in,
    chosen,
    fold_of,
    frozen_choices,
    read_choices,
)
from riesz_paper.experiments.jura.tables import comparisons, mean_scores, paired, resampled


def test_no_case_predicts_a_metal_from_itself():
    assert all(case.metal not in case.secondaries for case in CASES)
    assert {case.metal for case in CASES} == set(SECONDARIES)
    copper = [case.inputs for case in cases_of("Cu")]
    assert copper == [
        "Ni, Zn",
        "Ni, Zn, landuse, rock",
        "Pb, Ni, Zn",
        "Pb, Ni, Zn, landuse, rock",
    ]


def test_an_unknown_metal_is_told():
    with pytest.raises(RieszError, match=r"no metal 'Cdd'.*Cd"):
        cases_of("Cdd")


def test_covariates_of_a_case_are_its_inputs_and_no_more():
    case = Case("Cd", ("Pb", "Zn"), categories=True)
    found = case.covariates(jura())
    assert tuple(found.numbers) == ("Pb", "Zn")
    assert tuple(found.categories) == CATEGORIES
    np.testing.assert_array_equal(case.target(jura()), jura().metals["Cd"])


def test_splits_have_259_and_100_samples_and_random_ones_differ():
    samples = jura()
    splits = [trained_on(samples, name) for name in (VALIDATION, "resplit-00", "resplit-01")]
    assert [split.sum() for split in splits] == [259] * 3
    assert not np.array_equal(splits[1], splits[2])
    np.testing.assert_array_equal(splits[0], samples.is_training)


def test_folds_are_of_one_size():
    assert np.bincount(fold_of(259, 7, 0)).tolist() == [37] * 7


def select_row(case: Case, candidate: int, error: float):
    return {
        "metal": case.metal,
        "secondaries": case.inputs,
        "candidate": candidate,
        "cv_mae": error,
    }


def test_the_best_candidate_of_each_case_and_the_best_case_of_each_metal_are_chosen():
    plain, with_categories = cases_of("Cd")
    rows = [
        select_row(plain, 0, 0.40),
        select_row(plain, 1, 0.39),
        select_row(with_categories, 0, 0.38),
        *(select_row(case, 2, 5.0) for case in cases_of("Cu")),
    ]
    found = {choice.case: choice for choice in chosen(rows)}
    assert found[plain].structure == CANDIDATES[1]
    assert [found[case].selected for case in (plain, with_categories)] == [False, True]
    assert [found[case].selected for case in cases_of("Cu")] == [False, False, True, True]


def test_settings_survive_their_file_and_a_wrong_one_is_told():
    frozen = frozen_choices()
    again = json.loads(json.dumps(as_json(list(frozen.values()))))
    assert choices_in(again, "again") == frozen
    assert set(frozen) == set(CASES)
    with pytest.raises(FileFormatError, match="wrong is not a settings file"):
        choices_in([{"metal": "Cd"}], "wrong")


def test_settings_of_ones_own_must_have_all_cases(tmp_path):
    path = tmp_path / "own.json"
    few = [choice for choice in frozen_choices().values() if choice.case.metal == "Cd"]
    path.write_text(json.dumps(as_json(few)))
    own = read_choices(path)
    assert jura_experiment(jura(), 0, "quick", "Cd", own).config["settings"] == as_json(few)
    with pytest.raises(RieszError, match="nothing for Co from Ni, Zn"):
        jura_experiment(jura(), 0, "quick", "Co", own)
    path.write_text("[1, 2]")
    with pytest.raises(FileFormatError, match="is not a settings file"):
        read_choices(path)


def test_each_metal_has_one_model_that_cross_validation_chose():
    selected = [choice.case for choice in frozen_choices().values() if choice.selected]
    for metal in ("Cd", "Pb", "Co"):
        assert len([case for case in selected if case.metal == metal]) == 1
    assert [case.inputs for case in selected if case.metal == "Cu"] == [
        "Pb, Ni, Zn",
        "Pb, Ni, Zn, landuse, rock",
    ]


def scored(method: str, restart: int | str, errors: list[float], split: str = VALIDATION):
    return {
        "method": method,
        "role": "ours" if method == "field-regression" else "baseline",
        "selected": method == "field-regression",
        "metal": "Cd",
        "secondaries": "Pb, Ni, Zn",
        "split": split,
        "restart": restart,
        "mae": float(np.mean(errors)),
        "crps": 0.2,
        "coverage95": 0.95,
        "seconds": 1.0,
        "errors": errors,
    }


def test_tables_average_restarts_and_pair_points():
    rng = np.random.default_rng(0)
    base = rng.uniform(1, 2, 50)
    rows = [
        scored("field-regression", 0, (base - 0.2).tolist()),
        scored("field-regression", 1, (base - 0.1).tolist()),
        scored("additive-log-gp", 0, (base + 0.01 * rng.standard_normal(50)).tolist()),
        scored("vae", "ensemble of 2", base.tolist()),
        *(scored("field-regression", 0, [1.0 + 0.1 * k], f"resplit-{k:02d}") for k in range(3)),
        *(scored("additive-log-gp", 0, [1.1 + 0.1 * k], f"resplit-{k:02d}") for k in range(3)),
        *({**task.identity, **task.run()} for task in published_tasks(["Cd"])),
    ]
    means = {row["method"]: row for row in mean_scores(rows)}
    assert means["field-regression"]["mae"] == pytest.approx(base.mean() - 0.15)
    assert means["field-regression"]["mae_sd"] == pytest.approx(0.05 * 2**0.5)
    assert means["vae, ensemble of 2"]["runs"] == 1
    assert means["VAE-DT (published)"]["mae"] == 0.478
    pairs = {(row["method"], row["split"]): row for row in comparisons(rows)}
    ours = pairs["field-regression", VALIDATION]
    assert ours["against"] == "additive-log-gp"
    assert ours["low"] < -0.15 < ours["high"] < 0
    assert ours["p"] < 1e-6
    assert pairs["field-regression", "3 resplits"]["difference"] == pytest.approx(-0.1)


def test_a_secondary_that_was_not_measured_everywhere_is_told(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(
        "set,x_km,y_km,landuse,rock,Cd,Co,Cr,Cu,Ni,Pb,Zn\n"
        "train,1,2,Meadow,Argovian,1,2,3,4,5,,7\n"
        "validation,1.5,2,Meadow,Argovian,1,2,3,4,5,6,7\n"
    )
    with pytest.raises(RieszError, match="Pb was not measured at 1 samples, first sample 0"):
        Case("Cd", ("Pb", "Zn")).covariates(read_samples(path))


def test_splits_that_overlap_are_not_taken_for_independent():
    rng = np.random.default_rng(1)
    other = rng.uniform(1, 2, 20)
    own = other - 0.1 + 0.05 * rng.standard_normal(20)
    found = resampled(own, other)
    naive = paired(own, other)
    widths = [row["high"] - row["low"] for row in (found, naive)]
    # sqrt((1/20 + 100/259) / (1/20)), of Nadeau & Bengio (2003)
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(1 + 20 * 100 / 259))
    assert found["p"] is None


def test_samples_that_teach_nothing_are_told_before_any_work(tmp_path):
    heading = "set,x_km,y_km,landuse,rock,Cd,Co,Cr,Cu,Ni,Pb,Zn"
    rng = np.random.default_rng(0)

    def table(zinc, y):
        rows = [heading]
        for k in range(40):
            kind = "train" if k < 25 else "validation"
            x, metal = rng.uniform(0, 1000, 2)
            rows.append(
                f"{kind},{x},{y * metal},Meadow,Argovian,{1 + metal},2,3,4,{k + 1},6,{zinc}"
            )
        path = tmp_path / "own.csv"
        path.write_text("\n".join(rows))
        return read_samples(path)

    case = Case("Cd", ("Ni", "Zn"))
    with pytest.raises(RieszError, match="Zn has the same value at all places of training"):
        check_samples(table(12.4, 1.0), [case])
    with pytest.raises(RieszError, match=r"line|collinear|flat"):
        check_samples(table(12.4, 0.0), [Case("Cd", ("Ni",))])
    check_samples(table(12.4, 1.0), [Case("Cd", ("Ni",))])  # in metres
