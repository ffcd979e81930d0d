"""The page of a run: whole, self-contained, and safe whatever a run is called."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import jax.numpy as jnp
import numpy as np
import pytest
from tests.command import run
from tests.tiny_run import FOUND, tiny_run

from riesz.case.report.content import content_of
from riesz.case.report.page import embed_json, page, page_data
from riesz.case.report.trust import DOUBTFUL
from riesz.case.run.folder import read_run
from riesz.diagnose.facts import method_of
from riesz.errors import RieszError
from riesz.posterior.checks import PARTLY, WEIGHED

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("tiny"), value=EVIL, exchange=True, misfit=FOUND)


@pytest.fixture(scope="module")
def content(run_folder):
    return content_of(read_run(run_folder))


@pytest.fixture(scope="module")
def text(content):
    return page(content)


class Elements(HTMLParser):
    """Tags, and their attributes, of a page; raises nothing, counts all."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "link", "input", "path", "circle", "rect", "polyline"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    elements = Elements()
    elements.feed(re.sub(r"/>", ">", text))
    return elements


def test_every_element_is_closed(text):
    assert parsed(text).open == []


def test_what_users_wrote_is_never_read_as_html(text):
    elements = parsed(text)
    assert EVIL not in text
    assert elements.tags.count("script") == 2  # the data and the viewer
    assert "i" not in elements.tags
    assert "b" not in elements.tags
    assert "a &lt;i&gt;note&lt;/i&gt;" in text
    assert "# a &lt;b&gt;comment&lt;/b&gt; &amp; more" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_nothing_is_fetched_from_anywhere(text):
    links = [value for name, value in parsed(text).attributes if name in {"src", "href"}]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text


def test_embedded_data_cannot_end_their_element():
    found = embed_json({"name": "</script><!--", "and": "&"})
    assert "<" not in found
    assert json.loads(found) == {"name": "</script><!--", "and": "&"}


def test_the_page_shows_all_that_was_promised(text, content):
    for heading in (
        *("Map", "Parameters", "Data against prediction", "Can it be trusted?"),
        *("Budget", "Training", "Configuration"),
    ):
        assert f">{heading}</h2>" in text
    assert "was measured 9 times" in text
    assert "conductivity (mean over the domain)" in text
    assert "Learned about level" in text
    assert "outflow, prescribed on boundary" in text
    assert "misfit over 50 steps" in text
    assert "riesz fit problem.toml" in text
    assert "nobody compared this" in text.lower()
    assert len(text) < 1e6
    assert [one.name for one in content.maps] == ["measurement", "value", "conductivity"]


def test_the_head_of_the_page_says_what_the_fit_decided_from_the_data(text, content):
    head = text[text.index("<header>") : text.index("</header>")]
    assert "Decided from the data:" in head
    assert "<li>Kriging does as well here: these data show no &lt;i&gt;gain" in head
    assert "Decided from the data" not in page(dataclasses.replace(content, remarks=()))


def test_what_contradicts_the_model_is_told_with_a_map_of_residuals(text, content):
    told = {one.name: one for one in content.verdicts}
    assert told["Residuals by place"].level == DOUBTFUL
    assert told["Residuals by place"].found == "chance 1 in 1,000 or less"
    assert told["Prior against data"].found == "chance 1 in 250"
    assert "2 observations &lt;b&gt;lie&lt;/b&gt; 2.1 sd above" in text
    assert text.count('<g class="dot ringed"') == 2
    assert text.count('<g class="dot"') == 7
    assert 'data-words="well &lt; at (' in text
    assert "+3.0 sd from what the others predict; k-hat 0.90, the fit hangs on it" in text
    assert content.level == DOUBTFUL


@pytest.mark.slow
def test_runs_of_older_versions_have_no_map_of_residuals(limited):
    assert limited.dots == ()
    assert 'id="residuals"' not in page(limited)
    assert "Model against data" not in {one.name for one in limited.verdicts}


def test_arrows_of_flow_point_where_the_flux_goes(content, text):
    found = page_data(content)["flow"]
    assert 'id="show-flow"' in text
    assert "Arrows of flow are the mean of minus diffusion times the gradient of &lt;scr" in text
    # Water runs from the middle to the prescribed rim.
    west, east = np.array(found["x"]) < 350_400, np.array(found["x"]) > 353_600
    flux = np.array(found["east"])
    assert flux[west].mean() < 0 < flux[east].mean()
    assert found["spacing"] == pytest.approx(4000 / 24)
    assert len(found["x"]) == 24 * 12
    still = dataclasses.replace(content, flow=None)
    assert page_data(still)["flow"] is None
    assert 'id="show-flow"' not in page(still)


def test_the_numbers_of_the_page_are_those_of_the_posterior(content):
    level = next(one for one in content.draws.learned if one.label == "level")
    assert level.posterior[1] == pytest.approx(100.5, abs=0.3)  # 100 + 5 * 0.1
    assert level.posterior[2] - level.posterior[0] == pytest.approx(3.92 * 0.5, rel=0.4)
    assert level.prior[2] - level.prior[0] == pytest.approx(3.92 * 5.0, rel=0.1)
    assert level.share == pytest.approx(0.99, abs=0.01)
    lines = {line.name: line.mean for line in content.budget}
    assert lines["source"] == pytest.approx(2e-4 * 8e6)
    assert lines["wells"] == pytest.approx(-40.0)
    assert -0.01 * 2016 * 10 < lines["rivers"] < 0  # u is above its stage, along 2016 m
    assert lines["imbalance"] == pytest.approx(0.0, abs=1e-6)
    assert content.measurements.residuals[0] == pytest.approx(
        content.measurements.measured[0] - content.measurements.predicted[0]
    )


def test_the_mesh_is_drawn_where_it_is_not_too_fine(content, text, monkeypatch):
    mesh, found = content.draws.mesh, page_data(content)["mesh"]
    assert 'id="show-mesh"' in text
    np.testing.assert_allclose(np.transpose([found["x"], found["y"]]), mesh.nodes)
    assert mesh.num_nodes - len(found["edges"]) + mesh.num_cells == 1  # Euler, of a disc
    monkeypatch.setattr("riesz.case.report.page.MOST_EDGES", 10)
    assert page_data(content)["mesh"] is None
    assert 'id="show-mesh"' not in page(content)


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """The content of a run of logarithms, of which four of nine are only below a limit."""
    folder = tiny_run(tmp_path_factory.mktemp("limits"), num_below=4, logarithm=True)
    return content_of(read_run(folder))


@pytest.mark.slow
def test_limits_have_no_residual_anywhere(limited):
    assert limited.met.num_censored == 4
    measurements = limited.measurements
    assert np.isnan(measurements.residuals[:4]).all()
    assert np.isfinite(measurements.residuals[4:]).all()
    data = json.loads(json.dumps(page_data(limited), allow_nan=False))["measurements"]
    assert data["residual"][:4] == [None] * 4
    assert None not in data["residual"][4:]
    text = page(limited)
    assert "measured 9 times, from" in text
    assert "and 4 times below a limit of" in text
    assert "Values below a limit have no residual; the other measurements lie" in text
    assert text.count('class="mark"') == 4
    assert text.count('<td data-label="residual">none</td>') == 4
    assert "Triangles are measurements below a limit" in text


def test_where_the_state_is_a_logarithm_numbers_of_both_are_told_apart(limited):
    text = page(limited)
    names = ["a new measurement of head_m", "head_m", "log of head_m", "conductivity"]
    assert [one.title for one in limited.maps] == names
    assert [one.unit for one in limited.maps] == ["mg/l", "mg/l", None, None]
    assert "predicted head_m [mg/l], logarithmic" in text
    assert text.count("The equation is about the log of head_m") == 2
    assert "times the gradient of log of head_m" in text


def test_the_command_writes_beside_the_run_which_stays_whole(
    run_folder, content, monkeypatch, capsys
):
    monkeypatch.setattr("riesz.case.report.page.content_of", lambda run, **settings: content)
    for _ in range(2):  # a report that is there is replaced
        status, text, _ = run(["report", run_folder, "--json"], monkeypatch, capsys)
        assert status == 0
    told = json.loads(text)
    assert told["out"] == str(run_folder / "report.html")
    assert (run_folder / "report.html").stat().st_size == told["bytes"]
    assert told["trust"] == "doubtful"
    assert read_run(run_folder).posterior.engine == "laplace"
    posterior = dataclasses.replace(read_run(run_folder).posterior, engine="laplace(marginal)")
    weighed = {k: {"k_hat": jnp.asarray(k)} for k in (0.3, 0.9)}
    made = [dataclasses.replace(posterior, history=history) for history in weighed.values()]
    assert [method_of(one) for one in made] == [WEIGHED, PARTLY]
    assert run(["report", run_folder, "--quiet"], monkeypatch, capsys) == (0, "", "")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("page.pdf", "end in .html"),
        ("no/page.html", "there is no folder"),
        ("folder.html", "is a folder"),
    ],
)
def test_bad_targets_are_refused_before_any_work(out, message, run_folder, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("work began")

    monkeypatch.setattr("riesz.case.report.page.content_of", never)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(RieszError, match=message):
        read_run(run_folder).report(tmp_path / out)


def test_what_is_no_run_is_told(tmp_path, monkeypatch, capsys):
    status, _, errors = run(["report", tmp_path / "none"], monkeypatch, capsys)
    assert status == 2
    assert "there is no such folder" in errors
    status, _, errors = run(["report", tmp_path], monkeypatch, capsys)
    assert status == 2
    assert "is not a run folder" in errors


def test_a_report_that_is_stopped_leaves_nothing(run_folder, content, tmp_path, monkeypatch):
    def stopped(content):
        raise KeyboardInterrupt

    monkeypatch.setattr("riesz.case.report.page.content_of", lambda run, **settings: content)
    monkeypatch.setattr("riesz.case.report.page.page", stopped)
    with pytest.raises(KeyboardInterrupt):
        read_run(run_folder).report(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
