"""Many fits in one process: the ledger, what is done again, and shares of an array job."""

import csv
from dataclasses import replace

import pytest
from tests.command import run
from tests.many import stub
from tests.many.stub import finished, rows, sites

from riesz.errors import RieszError
from riesz_many.campaign import fit_sites
from riesz_many.ledger import Row, read_row, write_row
from riesz_many.options import Campaign
from riesz_many.scheduler import Groups, Task, dask_module, queue


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.setattr("riesz_many.campaign.SITE_FIT", "tests.many.stub")
    monkeypatch.setattr(stub, "SECONDS", 0.0)
    source = sites(tmp_path / "sites", ["a", "b", "deep/c"])
    return Campaign(source, tmp_path / "runs", jobs=1)


def fit(campaign):
    return {row.name: row for row in fit_sites(campaign, progress=False)}


def test_a_second_run_does_only_what_is_new_or_missing(campaign):
    assert {row.state for row in fit(campaign).values()} == {"done"}
    sites(campaign.source, ["new"])
    stub.remove_run(campaign.runs / "a")
    fit(campaign)
    assert finished(campaign.runs) == ["a", "b", "deep/c", "a", "new"]


def test_what_has_changed_is_refused_or_replaced(campaign):
    fit(campaign)
    (campaign.source / "b" / "problem.toml").write_text("[observations]\n# other\n")
    with pytest.raises(RieszError, match=r"fits of b whose files.*add --refit"):
        fit(campaign)
    with pytest.raises(RieszError, match=r"fits of a, b, deep/c whose"):
        fit(replace(campaign, seed=1))
    fit(replace(campaign, refit=True))
    assert finished(campaign.runs) == ["a", "b", "deep/c", "b"]
    assert "other" in (campaign.runs / "b" / "draws").read_text()


def test_a_run_that_was_complete_when_its_process_ended_is_taken_over(campaign):
    row = fit(campaign)["a"]
    write_row(campaign.runs, replace(row, state="running"))
    assert fit(campaign)["a"].state == "done"
    assert finished(campaign.runs).count("a") == 1


def test_a_fit_that_took_its_process_down_too_often_is_failed_with_what_to_do(campaign):
    row = fit(campaign)["a"]
    stub.remove_run(campaign.runs / "a")
    write_row(campaign.runs, replace(row, state="running", attempts=4))
    found = fit(campaign)["a"]
    assert (found.state, found.attempts) == ("failed", 4)
    assert "ended 4 times without a word" in found.message
    assert fit(campaign)["a"].attempts == 1  # asked for again, it has new attempts


def test_an_error_of_a_fit_is_its_row_and_a_bug_too(campaign, monkeypatch):
    sites(campaign.source, ["wrong"])
    monkeypatch.setattr(stub, "adopt_run", lambda *_: 1 / 0)
    found = fit(campaign)
    assert found["wrong"].message == "the engine failed: no solution."
    assert found["a"].message.startswith("ZeroDivisionError: division by zero. See it by itself")


def test_a_full_disk_is_told_of_the_fit_that_met_it(campaign, monkeypatch):
    def full(order, row, out):
        if order.site.name == "b":
            raise OSError(28, "No space left on device")
        return stub.adopt_run(order, row, out)

    monkeypatch.setattr(stub, "fit_site", full)
    found = fit(campaign)
    assert "No space left" in found["b"].message
    assert found["deep/c"].state == "done"


def test_shares_are_all_sites_once(campaign):
    for number in (1, 2):
        fit(replace(campaign, part=(number, 2)))
    assert sorted(finished(campaign.runs)) == ["a", "b", "deep/c"]
    with (campaign.runs / "ledger.csv").open() as file:
        assert [row["state"] for row in csv.DictReader(file)] == ["done"] * 3
    page = (campaign.runs / "index.html").read_text()
    assert "3 fits in runs" in page
    assert '<span class="level good">good</span> 3' in page


def test_the_command_tells_all_fits_and_fails_where_one_did(campaign, monkeypatch, capsys):
    sites(campaign.source, ["wrong"])
    words = ["fit-many", campaign.source, "--out", campaign.runs, "--part", "1/1"]
    status, output, errors = run(words, monkeypatch, capsys)
    assert status == 1
    assert "deep/c  good" in output
    assert "4 fits: 1 failed, 3 good" in output
    assert "riesz: 1 of 4 fits failed; wrong: the engine failed: no solution." in errors
    assert rows(campaign.runs)["wrong"]["state"] == "failed"


def test_a_script_for_sbatch_has_the_command_of_a_share(campaign, monkeypatch, capsys):
    words = ["fit-many", campaign.source, "--out", campaign.runs, "--array", "5", "--seed", "3"]
    words += ["--engine", "laplace", "--density", "marginal", "--time", "2m", "--no-reports"]
    status, output, _ = run(words, monkeypatch, capsys)
    script = campaign.runs / "ledger" / "array-job.sh"
    assert status == 0
    assert f"sbatch {script}" in output
    text = script.read_text()
    assert "#SBATCH --array=1-5" in text
    assert f"fit-many {campaign.source} --out {campaign.runs} --quiet --seed 3" in text
    assert "--engine laplace --density marginal --time 120s --no-reports --part" in text
    assert text.endswith('--part "$SLURM_ARRAY_TASK_ID/5"\n')


def test_words_that_make_no_sense_are_refused(campaign, monkeypatch, capsys):
    words = ["fit-many", campaign.source, "--out", campaign.runs]
    assert run([*words, "--part", "3/2"], monkeypatch, capsys)[0] == 2
    status, _, errors = run([*words, "--part", "1/2", "--array", "2"], monkeypatch, capsys)
    assert (status, "give one of --part, --array and --cluster" in errors) == (2, True)


def test_without_dask_it_is_said_what_to_install():
    with pytest.raises(RieszError, match=r"need dask-missing, .*pip install '.\[cluster\]'"):
        dask_module("dask_missing.part")


@pytest.mark.filterwarnings("ignore:unclosed cluster")  # of what dask-jobqueue gave up making
def test_a_queue_that_nobody_described_is_told():
    pytest.importorskip("dask_jobqueue", reason="comes with the extra cluster")
    told = r"what a job of slurm is stands nowhere .*jobqueue.yaml"
    with pytest.raises(RieszError, match=told), queue("slurm"):
        pass


def test_a_damaged_row_is_told(tmp_path):
    write_row(tmp_path, Row("a", "p", 0, "d"))
    (tmp_path / "ledger" / "a.json").write_text("[]")
    with pytest.raises(RieszError, match=r"a.json is no row of a ledger: delete it"):
        read_row(tmp_path, "a")


def test_processes_stay_with_a_group_and_share_one_only_where_they_may():
    tasks = [Task((), group) for group in "aaab"]
    groups = Groups(tasks, split=True)
    assert [groups.next(), groups.next()] == [(0, "a"), (3, "b")]
    assert groups.next("b") == (1, "a")
    assert groups.next("a") == (2, "a")
    assert groups.next("a") is None
    groups = Groups(tasks, split=False)
    assert [groups.next(), groups.next(), groups.next("b")] == [(0, "a"), (3, "b"), None]
    assert groups.next("a") == (1, "a")
