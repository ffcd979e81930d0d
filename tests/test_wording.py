"""Notes are records: each code has a sentence, an example of it, and a way to files and back."""

import copy
import dataclasses
import json
import math
import pickle
import string
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from riesz.errors import FileFormatError
from riesz.notes import (
    Note,
    NoteWarning,
    Severity,
    doubts,
    note_of_warning,
    read_notes,
    text_note,
    to_json,
    warn_of,
)
from riesz.wording import INFORMATION, TEXT, WARNINGS

GOLDEN = Path(__file__).with_name("wording.txt")
FIT = {"engine": "laplace"}
DRAWS = {"lost": 3, "total": 40}
ODD = {"where": "a.csv, line 3", "column": "head"}
DATED = {"first": "1990-01-01", "last": "1999-12-31"}
WINDOW = "from 1960-01-01 to 1979-12-31"
K_HAT = {"value": 0.8123, "limit": 0.7}
DIFFERENCE = {"mean": 0.1234, "error": 0.02, "low": 0.08, "high": 0.16}
EXAMPLES = {
    TEXT: [{"words": "a library said {so}"}],
    "divergences": [{"count": 30, "total": 2000}],
    "too_few_draws": [{}],
    "r_hat": [{"value": 1.2, "limit": 1.01, "unknown": "k[2]"}],
    "chains_apart": [{"value": 1.5, "limit": 1.01, "unknown": "k[2]"}],
    "effective_draws": [{"value": 25.4, "limit": 100, "error": 0.198, "unknown": "k"}],
    "tail_draws": [{"value": 25.4, "limit": 100, "unknown": "k"}],
    "modes": [
        {"count": 2, "shares": (0.75, 0.25), "changes": 99, "is_rare": False},
        {"count": 2, "shares": (0.5, 0.5), "changes": 1, "is_rare": True},
    ],
    "time_in_chains": [{"num_draws": 40, "num_chains": 4}],
    "time_in_rounds": [{"rounds": 3}],
    "time_in_search": [{}],
    "time_before_spread": [{}],
    "map_search": [
        {"steps": 1, "distance": 0.123, "is_cut": True},
        {"steps": 20, "distance": 12.3, "is_cut": False},
    ],
    "few_directions": [{"count": 50, "share": 0.123}],
    "variational_unconverged": [
        {"steps": 1, "is_cut": True, "step": 0.5},
        {"steps": 100, "is_cut": False, "mean_error": 0.123, "sd_error": 0.25},
    ],
    "variational_no_solution": [DRAWS],
    "emulate_unsettled": [{"rounds": 30, "percent": 12.5, "moved": 0.25}],
    "surrogate_residual": [{"percent": 12.5, "limit": 0.321}],
    "reduced_k_hat": [K_HAT],
    "epsilon_range": [{"low": 0.01, "high": 0.2, "median": 0.054}],
    "flat_directions": [{"count": 2, "total": 3}],
    "hyper_k_hat": [K_HAT],
    "hyper_slope": [{"slope": 0.123}],
    "singular_covariance": [DRAWS],
    "unlike_training": [{"fit": -123.456, "usual": -12.3}],
    "not_normal": [{"k_hat": 1.234, "effective_draws": 3.21}],
    "explained_elsewhere": [{}],
    "biased": [{"bias": 0.456}],
    "unexplained": [{"surprise": 12.3}],
    "asked_for": [{}],
    "named_by_file": [{}],
    "engine_renamed": [{"old": "nuts", "method": "mcmc", "density": "exact"}],
    "float32": [{}],
    "all_linear": [{"size": 1}, {"size": 16}],
    "few_left": [{"left": 2, "size": 14}],
    "normal_first": [{"size": 30}],
    "k_hat_high": [{"value": math.inf}],
    "hyper_k_hat_high": [{"value": 0.8}],
    "moments_off": [{}],
    "r_hat_high": [{"value": 1.02}],
    "few_effective": [{"value": 12.3}],
    "higher_mode": [{"log_ratio": 12.3}],
    "separate_modes": [{"count": 2}],
    "engine_failed": [{"error": "the log-posterior has no maximum."}],
    "adequacy_unknown": [{"error": "no peak."}],
    "auto_started": [FIT | {"reason": Note("normal_first", size=30)}],
    "engine_adequate": [FIT],
    "engine_inadequate": [FIT | {"reason": Note("k_hat_high", value=0.9)}],
    "engine_left_out": [FIT],
    "time_before_engine": [FIT],
    "not_checked": [{"num_draws": 128, "minutes": 17.4}],
    "mesh_error": [
        {"where": "well W12", "off": 0.3123, "rms": 0.1, "by_steps": False},
        {"where": "well W12", "off": 0.3, "rms": 0.1, "by_steps": False, "is_corrected": True},
        {"where": "observation 3", "off": 0.0123, "rms": 0.01, "by_steps": True},
    ],
    "check_failed": [{"what": "q", "error": "no solution."}],
    "mesh_refined": [
        {"nodes": 900, "before": 65, "off": 0.08},
        {"nodes": 20000, "before": 65, "off": 0.31},
    ],
    "not_refined": [{"error": "the equation is one in time."}],
    "importance_tail": [K_HAT],
    "importance_failed": [K_HAT],
    "importance_failed_sparse": [K_HAT | {"num_draws": 128}],
    "importance_shift": [{"unknown": "k[2]", "shift": 0.6, "error": 0.012}],
    "importance_narrow": [{"unknown": "k", "ratio": 0.5, "error": 0.012}],
    "importance_wide": [{"unknown": "k", "ratio": 2.0, "error": 0.012}],
    "importance_lost": [DRAWS],
    "no_derivative": [{"names": ("f", "k")}],
    "first_order": [{"step": 1.0, "period": 2.0}],
    "posterior_in_doubt": [{"reason": Note("r_hat_high", value=1.2)}],
    "region": [
        {"count": 1, "mean": 2.13, "where": "(1.0, 2.0)", "which": "well 7"},
        {"count": 2, "mean": -0.52, "where": "(1.0, 2.0)", "which": "wells 7, 8"},
    ],
    "residuals_grow": [{}],
    "residuals_shrink": [{}],
    "residuals_rise": [{"covariate": "depth", "correlation": 0.5}],
    "residuals_fall": [{"covariate": "depth", "correlation": -0.5}],
    "neighbours_alike": [{"likeness": 0.4, "reach": 1234.5, "which": "wells 7, 8"}],
    "readings_alike": [{"correlation": 0.5}],
    "noise_larger": [{"size": 2.0, "noise": "normal, sd 0.1", "which": "wells 7, 8"}],
    "noise_smaller": [{"size": 0.5, "noise": "normal, sd 0.1"}],
    "heavy_tails": [
        {
            "count": count,
            "total": 80,
            "limit": 2.5,
            "largest": 6.3,
            "noise": "normal, sd 0.1",
            "expected": 0.9,
            "which": "line 3",
            "advice": Note("state_heavy"),
        }
        for count in (1, 2)
    ],
    "observation": [
        {
            "which": "well 7",
            "where": "(1.0, 2.0)",
            "observed": 12.345,
            "is_limit": is_first,
            "size": size,
            "most": 20.0,
            "hangs": is_first,
        }
        for is_first, size in ((True, 33.0), (False, -5.4))
    ],
    "prior_field": [{"field": "f", "size": 2.5}],
    "prior_level": [{"field": "f", "size": -4.0}],
    "prior_number": [
        {"unknown": "k", "size": 3.0, "mean": 9.1, "low": 0.1, "median": 1.0, "high": 5.0},
        {"unknown": "w[2]", "size": -3.0},
    ],
    "state_heavy": [{}],
    "state_counts": [{}],
    "state_heavier": [{}],
    "not_left_out": [
        {"model": "field", "count": 1, "is_block": False},
        {"model": "field", "count": 2, "is_block": True},
    ],
    "physics_helps": [DIFFERENCE | {"rival": "kriging", "left_out": "blocks"}],
    "physics_costs": [DIFFERENCE | {"rival": "a plane", "left_out": "observations"}],
    "physics_no_help": [DIFFERENCE | {"rival": "kriging", "left_out": "blocks"}],
    "of_model": [{"model": "field", "verdict": Note("asked_for")}],
    "model_better": [DIFFERENCE | {"model": "field", "other": "uniform", "left_out": "blocks"}],
    "models_alike": [DIFFERENCE | {"model": "field", "other": "uniform", "left_out": "blocks"}],
    "no_rivals": [{"reason": "in time"}],
    "observed_twice": [{"count": 2, "total": 9, "first": (0.1, 0.2), "low": 1.0, "high": 2.0}],
    "only_ratios": [{"terms": ("diffusion by 'a'", "source by 'f'")}],
    "unused_unknowns": [{"unknowns": ("b", "c")}],
    "number_not_positive": [{"unknown": "a", "low": -0.5, "place": "diffusivity", "draws": 64}],
    "field_not_positive": [{"unknown": "a", "low": -0.5, "place": "diffusivity", "draws": 64}],
    "idle_dirichlet": [{"tag": "left"}],
    "not_placed": [{"file": "problem.toml", "outline": "domain.csv"}],
    "crs_in_degrees": [{"crs": "EPSG:4326"}],
    "maps_at_end": [{"when": "1981-01-01"}],
    "idle_boundary": [{"tag": "right"}],
    "places_outside": [{"count": 1, "total": 3, "file": "places.csv", "which": "line 3"}],
    "median_exposure": [{"column": "hours", "median": 1.5}],
    "median_trials": [{"column": "n", "median": 20.0}],
    "median_noise": [{"what": "the next"}],
    "places_unread": [{"which": "2 of 3"}],
    "usual_covariates": [{"values": "Zn = 57, rock = chalk", "points": "--points"}],
    "among_observations": [{}],
    "other_version": [{"saved": "0.0.7", "own": "0.1"}],
    "scenario": [{"file": "dry.toml"}],
    "axes_by_name": [{"x": "lat", "y": "lon"}],
    "no_value": [ODD | {"value": -999.0, "count": 2, "total": 30}],
    "far_outlier": [ODD | {"value": 6471.6}],
    "same_values": [{"column": "head", "value": 1.5}],
    "no_number": [{"file": "a.csv", "column": "head", "which": "line 5 ('dry')"}],
    "moving_sites": [{"count": 2, "distance": 12.5}],
    "outside_dropped": [{"file": "a.csv", "count": 1, "total": 6, "which": "line 7 (F)"}],
    "rows_of_file": [{"count": 8, "file": "levels.csv"}],
    "rows_filtered": [
        {"column": "use", "wanted": "True", "count": 3, "total": 4, "file": file}
        for file in ("", "sites.csv")
    ],
    "rows_in_window": [
        {"column": "date", "window": WINDOW, "count": 6, "total": 7, "undated": undated}
        for undated in (0, 1)
    ],
    "unknown_sites": [{"count": 4, "sites": 1, "file": "sites.csv", "example": "0303"}],
    "below_limit": [{"count": 2, "total": 4}],
    "aggregated": [{"how": "median", "fewest": 1, "most": 3, "count": 3}],
    "rows_projected": [{"source": "EPSG:4326", "target": "EPSG:32632"}],
    "rows_outside": [{"count": 1, "total": 6}],
    "table_form": [{"form": "columns by tabs, decimal commas"}],
    "axes_guessed": [{"x": "lon", "y": "lat", "reason": "their names"}],
    "value_guessed": [{"column": "head", "reason": "its name"}],
    "cells_emptied": [{"column": "head", "count": 3, "numbers": "-999"}],
    "rows_taken": [
        {"count": 30, "total": 30, "homeless": 0, "empty": 0, "outside": 0},
        {"count": 30, "total": 36, "homeless": 3, "empty": 2, "outside": 1},
    ],
    "rows_left_out": [{"which": "line 32 (far well)"}],
    "sites_joined": [
        {
            "remark": Note("aggregated", how="median", fewest=1, most=3, count=3),
            "column": "well",
        }
    ],
    "dates_in_time": [DATED | {"column": "day"}],
    "dates_together": [DATED | {"column": "day"}],
    "recharge_table": [DATED | {"column": "rain"}],
    "wells_table": [DATED | {"column": "q"}],
    "crs_moved": [{"source": "EPSG:4326", "target": "EPSG:25832"}],
    "crs_likely": [{"likely": "EPSG:31467, if they are Gauss-Krüger zone 3"}],
    "crs_from_degrees": [{"crs": "EPSG:32632"}],
    "crs_on_earth": [{"place": "9.189° E, 48.79° N, Germany"}],
    "crs_kept_degrees": [{}],
    "mesh_edges": [{"edge": "230"}],
    "values_skewed": [{}],
    "limits_need_nuts": [{"count": 2}],
    "draws_lost": [DRAWS],
    "not_summarised": [{"error": "no solution."}],
    "criticism_failed": [{"error": "no solution."}],
}


def examples():
    return [Note(code, **values) for code, own in EXAMPLES.items() for values in own]


def test_each_note_reads_as_the_golden_file_has_it():
    """Write it anew after a change by running this file."""
    assert set(EXAMPLES) == {*WARNINGS, *INFORMATION}
    assert rendered() == GOLDEN.read_text(encoding="utf-8")


def rendered():
    return "".join(f"{note.code} ({note.severity}): {note}\n" for note in examples())


def test_each_note_comes_back_from_a_file_as_it_was():
    notes = (*examples(), Note("engine_left_out", Severity.INFO, engine="mcmc"))
    assert read_notes(json.loads(json.dumps(to_json(notes), allow_nan=False)), "here") == notes
    assert {note: number for number, note in enumerate(notes)}[notes[-1]] == len(notes) - 1


def test_what_earlier_versions_wrote_is_read_as_text():
    (note,) = read_notes(["laplace will do"], "here")
    assert (note.code, note.values["words"]) == (TEXT, "laplace will do")
    assert str(note) == "laplace will do"


def test_a_map_without_a_place_on_earth_was_no_doubt_in_earlier_versions_either():
    words = "problem.toml names no crs: maps will not say where on Earth they are; add crs"
    assert read_notes([words], "here")[0].severity is Severity.INFO


def test_notes_can_be_copied_pickled_and_taken_apart():
    note = Note("k_hat_high", value=0.9)
    warning = NoteWarning(note, "laplace")
    for copied in (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert copied(note) == note
        assert str(copied(warning)) == str(warning) == f"laplace: {note}"
        assert copied(warning).note == note
    assert dataclasses.asdict(note)["values"] == {"value": 0.9}


def test_what_auto_did_in_a_run_of_earlier_versions_is_no_doubt():
    account = ["auto took laplace first: x", "laplace will not do: k-hat is 0.9", "sample will do"]
    notes = read_notes(["chains disagree", *account], "here")
    assert [note.severity for note in notes] == [Severity.WARNING, *[Severity.INFO] * 3]
    failed = read_notes(account[:2], "here")
    assert doubts(failed) == failed


@pytest.mark.parametrize(
    "content",
    [
        3,
        [3],
        [{"code": "r_hat"}],
        [{"code": "r_hat", "severity": "warning", "values": {}}],
        [{"code": "r_hat", "severity": "dire", "values": {}}],
        [{"code": "nothing", "severity": "info", "values": {}}],
        [{"code": "r_hat", "severity": "info", "values": {"value": "a", "limit": 1, "unknown": 2}}],
    ],
)
def test_a_damaged_note_is_refused_by_the_name_of_its_file(content):
    with pytest.raises(FileFormatError, match=r"posterior.json is damaged: notes"):
        read_notes(content, "posterior.json")


def test_values_are_numbers_of_python_whatever_library_made_them():
    note = Note("modes", count=np.int64(2), shares=[np.float64(0.5)] * 2, changes=jnp.asarray(3))
    assert note.values == {"count": 2, "shares": (0.5, 0.5), "changes": 3}
    assert type(note.values["count"]) is type(note.values["changes"]) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        note.code = "other"


def test_only_warnings_are_doubts():
    failed = Note("engine_inadequate", engine="laplace", reason=Note("r_hat_high", value=1.2))
    passed = failed.with_severity(Severity.INFO)
    assert doubts((failed, passed, Note("engine_adequate", engine="mcmc"))) == (failed,)


def test_a_warning_carries_its_note():
    note = Note("too_few_draws")
    with pytest.warns(NoteWarning, match="^nuts: there are too few draws") as caught:
        warn_of([note], "nuts")
    assert note_of_warning(caught[0].message) == note
    assert note_of_warning(UserWarning("other")) == text_note("other")


def test_templates_name_their_values_plainly():
    """By name and format alone: no attribute or entry of a value is ever looked up."""
    for words in (*WARNINGS.values(), *INFORMATION.values()):
        if isinstance(words, str):
            names = [name for _, name, _, _ in string.Formatter().parse(words) if name is not None]
            assert all(name.isidentifier() for name in names)


if __name__ == "__main__":
    GOLDEN.write_text(rendered(), encoding="utf-8")
