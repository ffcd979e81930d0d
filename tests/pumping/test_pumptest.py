"""Pumping tests: closed forms, tables of any site, flow about a well, what residuals tell."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import exp1, k0
from tests.command import run
from tests.linear_gaussian import NOISE, linear_problem, response

import riesz as rz
from riesz.errors import FileFormatError, RieszError
from riesz_pumping.fit import (
    DRIFT,
    INDEPENDENT,
    Resolution,
    check_readings,
    closest,
    coordinates_at,
    fit_test,
    growing_times,
    laplace_evidence,
    leaky_well_function,
    level_function,
    noise_of,
    pumping_problem,
    superpose,
    times_of,
)
from riesz_pumping.results import correlation, missing_physics, out_of_range
from riesz_pumping.tables import rates_in, read_readings
from riesz_pumping.well import Pumped, Readings

VALUES = {"k": 50.0, "Ss": 1e-4, "c": 300.0}
CONFINED = Pumped(((0.0, 700.0),), thickness=10.0)
LEAKY = Pumped(((0.0, 700.0),), thickness=10.0, leaky=True)
SKINNED = Pumped(((0.0, 700.0),), thickness=10.0, skin=True)
STEPPED = Pumped(((0.0, 700.0), (0.1, 300.0)), thickness=10.0)
COARSE = Resolution(60, 1.2, 20.0)
TIMES = np.geomspace(0.003, 0.5, 8)


def read_at(times=TIMES, radii=(30.0, 90.0), well=None, values=VALUES, noise_sd=0.0):
    """Piezometers that were read at the same times, of a well as closed forms have it."""
    radius, number = np.repeat(radii, len(times)), np.repeat(np.arange(len(radii)), len(times))
    when, names = np.tile(times, len(radii)), tuple(f"r{one:g}" for one in radii)
    level = np.zeros(len(when)) if well is None else superpose(well, radius, when, values)
    noise = noise_sd * np.random.default_rng(0).normal(size=len(when))
    return Readings(names, number, radius, when, level + noise)


def test_without_leakage_the_leaky_well_function_is_the_exponential_integral():
    u = np.geomspace(1e-9, 20.0, 40)
    np.testing.assert_allclose(leaky_well_function(u, 0 * u), exp1(u), rtol=1e-10)


def test_in_the_end_leakage_holds_the_cone():
    ratio = np.array([0.01, 0.3, 2.0])
    found = leaky_well_function(np.full(3, 1e-12), ratio)
    np.testing.assert_allclose(found, 2 * k0(ratio), rtol=1e-10)


def test_a_rate_that_ends_leaves_what_it_would_have_been_less_the_same_later():
    stopped = Pumped(((0.0, 700.0), (0.1, 0.0)), thickness=10.0)
    radius, after = np.full(3, 30.0), np.array([0.11, 0.2, 0.5])
    whole, later = (superpose(CONFINED, radius, t, VALUES) for t in (after, after - 0.1))
    np.testing.assert_allclose(superpose(stopped, radius, after, VALUES), whole - later)


@pytest.mark.parametrize("well", [CONFINED, pytest.param(LEAKY, marks=pytest.mark.slow), STEPPED])
def test_a_search_by_closed_forms_finds_what_readings_were_made_of(well):
    found = closest(well, read_at(well=well))
    for name in found:
        assert found[name] == pytest.approx(VALUES[name], rel=1e-3)


@pytest.mark.parametrize("well", [LEAKY, pytest.param(STEPPED, marks=pytest.mark.slow)])
def test_few_cells_and_steps_follow_the_closed_forms(well):
    seen = read_at(well=well)
    problem = pumping_problem(well, seen, rz.Gaussian(0.01), {}, COARSE)
    own = coordinates_at(problem, VALUES)
    found = level_function(problem)(own)
    np.testing.assert_allclose(found, seen.level, atol=0.01 * seen.level.max())


def test_a_skin_lowers_the_level_in_the_well_and_nowhere_else():
    """By Q skin / 2 pi T, in the closed form and by the equation."""
    seen = read_at(radii=(0.1, 30.0))
    found, without = (
        superpose(well, seen.radius, seen.time, VALUES | {"skin": 5.0})
        for well in (SKINNED, CONFINED)
    )
    more = np.where(seen.radius == 0.1, 700 * 5 / (2 * np.pi * 500), 0.0)
    np.testing.assert_allclose(found - without, more)
    problem = pumping_problem(SKINNED, seen, rz.Gaussian(0.01), {}, COARSE)
    levels = level_function(problem)
    large, small = (
        levels(coordinates_at(problem, VALUES | {"skin": factor})) for factor in (5.0, 1e-3)
    )
    np.testing.assert_allclose(large - small, more * (1 - 2e-4), atol=2e-3)
    np.testing.assert_allclose(large, found, atol=0.01 * found.max())


def test_storage_that_no_aquifer_has_is_told_and_a_skin_found():
    seen = read_at(radii=(0.1, 30.0), well=SKINNED, values=VALUES | {"skin": 5.0})
    alone = seen.radius == 0.1
    own = Readings(
        ("r0.1",), *(one[alone] for one in (seen.well, seen.radius, seen.time, seen.level))
    )
    lost = closest(CONFINED, own)
    assert lost["k"] == pytest.approx(50.0, rel=0.01)
    assert lost["Ss"] == pytest.approx(1e-4 * np.exp(-10), rel=0.1)  # a skin moves log Ss by two
    (told,) = out_of_range(CONFINED, own, lost)
    assert told.startswith("Ss is ")
    assert "--skin" in told
    assert out_of_range(CONFINED, own, VALUES) == ()
    both = closest(SKINNED, seen)
    assert both == pytest.approx({"k": 50.0, "Ss": 1e-4, "skin": 5.0}, rel=1e-3)
    with pytest.raises(RieszError, match="no reading is of the pumped well itself"):
        check_readings(SKINNED, read_at(well=CONFINED))


def test_the_evidence_about_a_mode_is_that_of_a_normal_model():
    posterior = rz.fit(linear_problem(), "laplace", check=False, progress=False)
    matrix, offset = response()
    misfit = np.asarray(linear_problem().observed) - offset
    covariance = matrix @ matrix.T + NOISE**2 * np.eye(len(misfit))
    exact = stats.multivariate_normal.logpdf(misfit, np.zeros(len(misfit)), covariance)
    assert laplace_evidence(posterior) == pytest.approx(exact, abs=1e-3)


@pytest.mark.slow
def test_errors_are_independent_where_readings_say_so_and_leakage_is_found():
    seen = read_at(np.geomspace(0.003, 3.0, 15), well=LEAKY, noise_sd=0.005)
    found = fit_test(LEAKY, seen)
    assert found.noise == INDEPENDENT
    assert set(found.log_evidence) == {INDEPENDENT, DRIFT}
    logs = np.log(found.draws["c"])
    assert abs(logs.mean() - np.log(300.0)) < 3 * logs.std()
    wide, narrow = (one[1] - one[0] for one in (found.readings_band, found.band))
    assert (wide > narrow).all()


@pytest.mark.slow
def test_water_that_a_well_stores_is_what_comes_first():
    """At once all water comes from the casing: its level falls by the rate over its area."""
    well = Pumped(((0.0, 700.0),), thickness=10.0, well_radius=0.2, casing_radius=5.0)
    seen = read_at(np.array([1e-5, 2e-5, 0.5]), radii=(0.2,))
    values = VALUES | {"k": 0.1}
    problem = pumping_problem(well, seen, rz.Gaussian(0.01), {}, COARSE)
    found = level_function(problem)(coordinates_at(problem, values))
    np.testing.assert_allclose(found[:2], 700 * seen.time[:2] / (np.pi * 25), rtol=0.02)
    unknown = Pumped(((0.0, 700.0),), thickness=10.0, well_radius=0.2, stores=True)
    problem = pumping_problem(unknown, seen, rz.Gaussian(0.01), {}, COARSE)
    same = level_function(problem)(coordinates_at(problem, values | {"rc": 5.0}))
    np.testing.assert_allclose(same, found)


def test_steps_grow_anew_where_the_rate_changes():
    growing = np.diff(growing_times(1e-3, 2.0, 1.1))
    np.testing.assert_allclose(growing[1:] / growing[:-1], growing[1] / growing[0])
    assert growing[0] == pytest.approx(1e-3)
    assert 1.09 < growing[1] / growing[0] <= 1.1
    times = times_of(STEPPED, read_at(), COARSE)
    assert 0.1 in times
    assert times[-1] == TIMES[-1]
    steps = np.diff(times)
    (change,) = np.flatnonzero(times == 0.1)
    assert steps[change] < 0.1 * steps[change - 1]


def test_readings_of_a_well_share_a_level_and_a_drift():
    seen = read_at(np.geomspace(0.01, 1.0, 4))
    likelihood, priors = noise_of(DRIFT, seen)
    z = {"noise_sd": 0.1, "level_sd": 0.3, "drift_sd": 0.2, "memory": 1.0}
    assert set(priors) == set(z)
    factor = likelihood.factor(jnp.zeros(8), {name: jnp.asarray(own) for name, own in z.items()})
    root = np.asarray(factor.colour(jnp.eye(8)))
    covariance = root @ root.T
    np.testing.assert_allclose(np.diag(covariance), 0.1**2 + 0.3**2 + 0.2**2)
    np.testing.assert_allclose(covariance[:4, 4:], 0.0, atol=1e-12)
    gap = np.log(seen.time[1] / seen.time[0])
    np.testing.assert_allclose(covariance[0, 1], 0.3**2 + 0.2**2 * np.exp(-gap))


@pytest.mark.slow
def test_wells_that_are_off_by_a_level_leave_leakage_open_and_it_is_inside():
    """Independent errors would be sure of a leakage that is not there."""
    seen = read_at(np.geomspace(0.003, 0.5, 12), radii=(30.0, 60.0, 90.0, 120.0), well=LEAKY)
    rng = np.random.default_rng(1)
    shared, own = 0.03 * rng.normal(size=4), 0.005 * rng.normal(size=len(seen))
    off = Readings(*(getattr(seen, name) for name in ("wells", "well", "radius", "time")),
                   seen.level + shared[seen.well] + own)  # fmt: skip
    found = fit_test(LEAKY, off)
    assert found.noise == DRIFT
    assert found.log_evidence[DRIFT] > found.log_evidence[INDEPENDENT] + 10
    for name in ("k", "Ss", "c"):
        low, high = np.quantile(found.draws[name], (0.025, 0.975))
        assert low < VALUES[name] < high


@pytest.mark.slow
def test_the_mode_of_theis_curve_with_noise_is_where_closed_forms_fit_best():
    seen = read_at(np.geomspace(0.003, 0.5, 15), well=CONFINED, noise_sd=0.01)
    found = fit_test(CONFINED, seen, noise=INDEPENDENT)
    for name, best in closest(CONFINED, seen).items():
        logs = np.log(found.draws[name])
        assert abs(logs.mean() - np.log(best)) < 0.1 * logs.std()
        assert abs(logs.mean() - np.log(VALUES[name])) < 4 * logs.std()
    assert missing_physics(CONFINED, seen, found.residual) == ()
    assert (found.band[0] < found.band[1]).all()


# What residuals tell


def test_residuals_that_follow_each_other_are_told_from_noise():
    seen = read_at(np.geomspace(0.01, 1.0, 400))
    noise = np.random.default_rng(0).normal(size=800)
    assert abs(correlation(noise, seen)) < 0.1
    assert correlation(np.cumsum(noise), seen) > 0.9
    assert missing_physics(CONFINED, seen, noise) == ()


@pytest.mark.parametrize(
    ("bend", "tilt", "told"),
    [
        (-1, -0.3, "leakage"),
        (-1, 0.3, "stored in the well"),
        (1, 0.3, "boundary without flow"),
        (1, -0.3, "delayed yield"),
    ],
)
def test_the_bend_of_residuals_tells_what_is_missing(bend, tilt, told):
    seen = read_at(np.geomspace(0.01, 1.0, 30))
    share = np.tile(np.linspace(-1, 1, 30), 2)
    (found,) = missing_physics(CONFINED, seen, bend * (share**2 - 1 / 3) + tilt * share)
    assert told in found


def test_a_leaky_aquifer_looks_leaky_to_a_confined_model():
    times = np.geomspace(0.003, 3.0, 30)
    seen = read_at(times, well=LEAKY, values=VALUES | {"c": 30.0}, noise_sd=0.002)
    values = closest(CONFINED, seen)
    rest = seen.level - superpose(CONFINED, seen.radius, seen.time, values)
    assert any("leakage" in one for one in missing_physics(CONFINED, seen, rest))


def test_wells_that_disagree_are_told():
    seen = read_at(np.geomspace(0.01, 1.0, 20))
    apart = np.repeat([0.1, -0.1], 20) * np.tile([1.0, 0.2], 20)
    assert "part of the thickness" in missing_physics(CONFINED, seen, apart)[-1]
    assert "fall less" in missing_physics(CONFINED, seen, -apart)[-1]


def test_a_well_that_is_off_is_named():
    seen = read_at(np.geomspace(0.01, 1.0, 20), radii=(10.0, 30.0, 90.0))
    off = np.repeat([0.01, -0.1, 0.02], 20) * np.tile([1.0, 1.5], 30)
    assert "readings of r30 are off by -0.12 m" in missing_physics(CONFINED, seen, off)[-1]


# Tables


def written(folder, text, name="readings.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_units_stand_in_the_names_of_columns(tmp_path):
    path = written(tmp_path, "Time (min),drawdown [ft],r_cm,Well\n0,0,100,a\n1440,10,100,a\n")
    seen, told = read_readings(path)
    assert (seen.wells, seen.time, seen.radius) == (("a",), 1.0, 1.0)
    assert seen.level == pytest.approx(3.048)
    assert told == ("1 readings not after time 0 are left out",)


def test_heads_fall_from_where_they_were(tmp_path):
    path = written(tmp_path, "t,h\n0,12\n1,11.5\n2,11\n")
    seen, _ = read_readings(path, distance=5.0, time_unit="h", length_unit="m")
    np.testing.assert_allclose(seen.level, [0.5, 1.0])
    np.testing.assert_allclose(seen.time, [1 / 24, 2 / 24])
    assert seen.wells == ("5 m",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "well,r_m,time_d,drawdown_m\na,0,1,0\n",
            "line 2: the distance is 0 m: it must",
        ),
        (
            "well,r_m,time_d,drawdown_m\na,1,1,0\na,2,2,0\n",
            "line 3: well a is elsewhere before",
        ),
        ("well,r_m,time_d,drawdown_m\na,1,1,0\na,1,1,0\n", "line 3: well a was read before"),
        ("well,r_m,time_d\na,1,1\n", "has no column of drawdown: call it drawdown or s"),
        ("r_m,time_d,head_m\n1,1,3\n", "has no head at time 0 or before"),
        ("r_m,time,drawdown_m\n1,1,0\n", "column 'time' does not say its unit: call it time_s"),
        ("r_m,time_d,drawdown_m\n1,0,0\n", "no reading after time 0"),
        ("time_d,drawdown_m\n1,0\n", "no column of r: call it r, distance or radius"),
        ("r_m,time_d,drawdown_m\n1,1,x\n", "drawdown_m is 'x', not a finite number"),
        ("r_m,time_d,time_min,drawdown_m\n1,1,1,0\n", "several columns of time"),
        ("r_m,time_d,drawdown_m\n", "has no rows"),
    ],
)
def test_bad_readings_are_told(tmp_path, text, message):
    with pytest.raises(FileFormatError, match=message):
        read_readings(written(tmp_path, text))


def test_rates_are_a_number_or_a_table(tmp_path):
    assert rates_in("10", unit="m3/h") == ((0.0, 240.0),)
    path = written(tmp_path, "time_h,rate_m3_h\n24,10\n48,0\n")
    assert rates_in(str(path)) == ((0.0, 0.0), (1.0, 240.0), (2.0, 0.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_d,rate\n0,1\n0,2\n", "line 3: rates hold from times that rise"),
        ("time_d,rate\n-1,1\n", "line 2: rates hold from times that rise"),
        ("time_d,q_pints\n0,x\n", "q_pints is 'x'"),
    ],
)
def test_bad_rates_are_told(tmp_path, text, message):
    with pytest.raises(FileFormatError, match=message):
        rates_in(str(written(tmp_path, text)))
    with pytest.raises(RieszError, match="--rate is 'much'"):
        rates_in("much")
    with pytest.raises(RieszError, match="--rate-unit is 'pints'"):
        rates_in("1", unit="pints")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rates": ()}, "is not pumped"),
        ({"rates": ((0.0, 0.0),)}, "is not pumped"),
        ({"rates": ((1.0, 5.0),)}, "the first is 0"),
        ({"thickness": -1.0}, "the thickness is -1 m"),
        ({"thickness": float("nan")}, "the thickness is nan m"),
        ({"casing_radius": -1.0}, "the casing radius is -1 m"),
    ],
)
def test_bad_wells_are_told(changes, message):
    with pytest.raises(RieszError, match=message):
        Pumped(**({"rates": ((0.0, 1.0),), "thickness": 1.0} | changes))


def test_readings_that_cannot_be_of_a_well_are_told():
    seen = read_at(well=CONFINED)
    upside_down = Readings(seen.wells, seen.well, seen.radius, seen.time, -seen.level)
    with pytest.raises(RieszError, match="a fall of head is positive"):
        check_readings(CONFINED, upside_down)
    with pytest.raises(RieszError, match="in the well itself are at its radius"):
        check_readings(Pumped(((0.0, 1.0),), 1.0, well_radius=40.0), seen)
    with pytest.raises(RieszError, match="2 readings are too few for 3 unknowns"):
        check_readings(CONFINED, read_at(TIMES[:1], well=CONFINED))


# The command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "-1"], "m3 were pumped, but drawdowns are"),
        (["--rate", "none.csv"], "--rate is 'none.csv'"),
    ],
)
def test_the_command_refuses_before_any_work(words, message, tmp_path, monkeypatch, capsys):
    rows = "".join(f"1,{time},{time}\n" for time in range(1, 9))
    path = written(tmp_path, f"r_m,time_d,drawdown_m\n{rows}")
    status, _, errors = run(["pumptest", path, *words], monkeypatch, capsys)
    assert status == 2
    assert message in errors


@pytest.mark.slow
def test_the_command_leaves_a_table_and_a_figure(tmp_path, monkeypatch, capsys):
    seen = read_at(well=CONFINED, noise_sd=0.005)
    rows = zip(seen.radius, seen.time, seen.level, strict=True)
    text = "".join(f"{r:.6g},{t:.6g},{s:.6g}\n" for r, t, s in rows)
    path = written(tmp_path, f"r_m,time_d,drawdown_m\n{text}")
    words = ["pumptest", path, "--rate", 700, "--noise", "independent", "--out", tmp_path / "out"]
    status, told, _ = run(words, monkeypatch, capsys)
    assert status == 0
    assert "| T | m2/d | " in told
    assert "| k |" not in told  # nobody said how thick the aquifer is
    files = {one.name for one in (tmp_path / "out").iterdir()}
    assert files == {"results.json", "parameters.csv", "readings.csv", "fit.png"}
