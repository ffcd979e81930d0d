"""Fits that a window begins are processes of their own, and are known again without it."""

import subprocess
import sys
import time

import pytest
from tests.small_problem import problem_toml, written

from riesz.errors import RieszError
from riesz_app.folder import Folder
from riesz_app.jobs import BAR, LOGS, Jobs, tail_of
from riesz_app.outputs import comparison_of, output_file, script_of

PROBLEM = problem_toml(engine_name="laplace")


@pytest.fixture
def folder(tmp_path):
    written(tmp_path, PROBLEM)
    return Folder(tmp_path.resolve())


def wait_for(jobs, run, state, seconds=120):
    end = time.monotonic() + seconds
    while (found := jobs.state(run))["state"] != state:
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


def test_a_fit_ends_in_a_run_whose_report_is_made_when_it_is_asked_for(folder):
    jobs = Jobs(folder)
    jobs.start("problem.toml", "first")
    assert jobs.state("first")["state"] == "running"
    with pytest.raises(RieszError, match="at work"):
        jobs.start("problem.toml", "first")
    found = wait_for(jobs, "first", "done")
    assert found["problem"] == "problem.toml"
    assert found["told"][-1].startswith("written: first")
    with pytest.raises(RieszError, match="there is a run first already"):
        jobs.start("problem.toml", "first")
    assert output_file(folder, "first", "summary.txt").is_file()
    with pytest.raises(RieszError, match="no file of a run"):
        output_file(folder, "first", "draws.npz")
    report = output_file(folder, "first", "report.html")
    assert "Riesz report of the run" in report.read_text()
    places = output_file(folder, "first", "next.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in places[:5]] == ["rank", "1", "2", "3", ""]
    script = script_of(folder, "first", "problem.toml")
    compile(script, "script.py", "exec")
    for other in ("", "other.toml", "problem.toml\nimport os"):
        with pytest.raises(RieszError):
            script_of(folder, "first", other)
    (folder.root / "other.toml").write_text(PROBLEM + "# another\n")
    with pytest.raises(RieszError, match="no problem file here is that of first"):
        script_of(folder, "first", "other.toml")
    # A window that is opened later knows it by what lies in the folder.
    assert [one["name"] for one in Jobs(folder).states()] == ["first"]


@pytest.mark.slow
def test_without_a_window_it_is_the_same(folder):
    jobs = Jobs(folder)
    jobs.start("problem.toml", "first")
    wait_for(jobs, "first", "done")
    (folder.root / "script.py").write_text(script_of(folder, "first", "problem.toml"))
    subprocess.run([sys.executable, "script.py"], cwd=folder.root, check=True, timeout=300)
    assert (folder.root / "first-again" / "map.csv").read_text().count("\n") > 100
    told = comparison_of(folder, ["first", "first-again"])["lines"]
    assert any("first-again" in line for line in told)


def test_runs_that_are_not_there_are_not_compared(folder):
    with pytest.raises(RieszError, match="first"):
        comparison_of(folder, ["first", "second"])
    with pytest.raises(RieszError):
        comparison_of(folder, ["first", "../elsewhere"])


def test_what_is_wrong_with_a_problem_file_is_told_by_its_fit(folder):
    (folder.root / "wrong.toml").write_text(PROBLEM.replace("[noise]", "[nose]"))
    jobs = Jobs(folder)
    jobs.start("wrong.toml", "second")
    found = wait_for(jobs, "second", "failed")
    assert "noise" in " ".join(found["told"])


def test_logs_that_lead_out_of_the_folder_are_not_written(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "precious"
    elsewhere.write_text("as it was")
    logs = folder.root / LOGS
    logs.mkdir()
    (logs / "first.log").symlink_to(elsewhere)
    (logs / "-no name.log").write_text("")
    jobs = Jobs(folder)
    with pytest.raises(RieszError, match="leads out"):
        jobs.start("problem.toml", "first")
    assert elsewhere.read_text() == "as it was"
    assert [one["name"] for one in jobs.states()] == ["first"]


def test_closing_the_window_ends_what_it_has_begun(folder):
    long = problem_toml(
        engine_name="mcmc", engine={"mcmc": {"kernel": "nuts", "num_samples": 100_000}}
    )
    (folder.root / "long.toml").write_text(long)
    jobs = Jobs(folder)
    jobs.start("long.toml", "third")
    later = Jobs(folder)  # of a window that came after one that was killed
    try:
        while later.state("third")["progress"] is None:
            assert later.state("third")["state"] == "running"
            time.sleep(0.1)
    finally:
        jobs.close()
    assert later.state("third")["state"] == "stopped"
    assert not (folder.root / "third").exists()


def test_a_log_is_read_as_a_terminal_would_show_it(tmp_path):
    log = tmp_path / "run.log"
    bar = "\r\x1b[2Kweights ━━━━━━╸             {}/150 0:00:07  "
    log.write_text("engine laplace\n" + bar.format(9) + bar.format(12))
    *_, last = tail_of(log)
    found = BAR.fullmatch(last.strip())
    assert found is not None
    assert found.groupdict() == {"what": "weights", "done": "12", "total": "150", "left": "0:00:07"}
    assert tail_of(tmp_path / LOGS) == []
