"""Sites come from a folder or a table, and their digests from all that they depend on."""

import pytest

from riesz.errors import FileFormatError, RieszError
from riesz_many.options import FitSettings
from riesz_many.sites import Digests, sites_in

PROBLEM = '[domain]\nmax_edge = 1\n[observations]\nfile = "wells.csv"\n'


def site(folder, text=PROBLEM, wells="x,y,value\n1,2,3\n", file="problem.toml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wells.csv").write_text(wells)
    (folder / file).write_text(text)


def found(folder, tmp_path, settings=None):
    described = Digests(settings or FitSettings())
    sites, _ = sites_in(folder, tmp_path / "runs", seed=7)
    return {one.name: described.site(one) for one in sites}


def test_names_are_those_of_folders_and_files_and_run_folders_are_left_out(tmp_path):
    folder = tmp_path / "sites"
    site(folder / "north" / "a")
    site(folder / "north", file="b.toml")
    site(folder / "old")
    (folder / "old" / "manifest.json").write_text("{}")
    site(folder / "runs" / "a")
    (folder / "changes.toml").write_text("[[wells]]\n")
    sites, told = sites_in(folder, folder / "runs", seed=7)
    assert [(one.name, one.seed) for one in sites] == [("north/a", 7), ("north/b", 7)]
    assert "changes.toml is left out" in told[0]


def test_a_table_may_name_sites_and_their_seeds(tmp_path):
    site(tmp_path / "one")
    table = tmp_path / "sites.csv"
    table.write_text("problem,name,seed\none/problem.toml,first,3\none/problem.toml,,\n")
    sites, _ = sites_in(table, tmp_path / "runs", seed=7)
    assert [(one.name, one.seed) for one in sites] == [("first", 3), ("one", 7)]
    table.write_text("problem\ntwo/problem.toml\n")
    with pytest.raises(FileFormatError, match=r"line 2: there is no file .*two"):
        sites_in(table, tmp_path / "runs", seed=7)
    table.write_text("problem,seed\none/problem.toml,-1\n")
    with pytest.raises(FileFormatError, match="the seed is '-1'"):
        sites_in(table, tmp_path / "runs", seed=7)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["one", "one"], "two fits called 'one'"),
        (["one", "one/two"], "in each other's folder"),
        (["../one"], "cannot be called"),
        (["ledger"], "cannot be called"),
    ],
)
def test_names_that_would_meet_are_refused(tmp_path, names, told):
    site(tmp_path / "one")
    table = tmp_path / "sites.csv"
    rows = "".join(f"one/problem.toml,{name}\n" for name in names)
    table.write_text(f"problem,name\n{rows}")
    with pytest.raises(RieszError, match=told):
        sites_in(table, tmp_path / "runs", seed=0)


def test_a_digest_changes_with_every_file_and_setting_and_a_group_only_with_sizes(tmp_path):
    for name in ("a", "b", "longer", "finer"):
        site(tmp_path / "sites" / name)
    site(tmp_path / "sites" / "b", wells="x,y,value\n1,2,4\n")
    site(tmp_path / "sites" / "longer", wells="x,y,value\n1,2,4\n1,1,1\n")
    site(tmp_path / "sites" / "finer", text=PROBLEM.replace("= 1", "= 0.5"))
    sites = found(tmp_path / "sites", tmp_path)
    assert len({one.digest for one in sites.values()}) == 4
    assert sites["a"].group == sites["b"].group
    assert len({one.group for one in sites.values()}) == 3
    other = found(tmp_path / "sites", tmp_path, FitSettings("laplace(marginal)"))
    assert other["a"].digest != sites["a"].digest
    assert other["a"].quickly
    assert not sites["a"].quickly
    marginal = found(tmp_path / "sites", tmp_path, FitSettings("laplace", "marginal"))
    assert marginal["a"].quickly
    assert len({one["a"].digest for one in (sites, other, marginal)}) == 3


def test_what_is_no_collection_is_told(tmp_path):
    site(tmp_path)
    with pytest.raises(RieszError, match="one problem file: fit it by riesz fit"):
        sites_in(tmp_path / "problem.toml", tmp_path / "runs", seed=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RieszError, match="has no problem files"):
        sites_in(tmp_path / "empty", tmp_path / "runs", seed=0)
