"""The report in a real browser: `make test-browser`. Screenshots go to out/browser, to be seen."""

import pytest
from tests.browser.conftest import WINDOWS, screenshot, set_window
from tests.tiny_run import FOUND, tiny_run
from tests.tiny_run_in_time import tiny_run_in_time

from riesz.case.run.folder import read_run

pytestmark = pytest.mark.browser

MAP_PIXELS = """
const canvas = document.getElementById("canvas");
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
let sum = 0;
for (let i = 0; i < data.length; i += 4) sum = (sum * 31 + data[i] + data[i + 1]) % 1000003;
return sum;
"""

SLIDE = """
const slider = document.getElementById("threshold");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
return document.getElementById("legend-title").textContent;
"""

WELL_PLACE = """
const data = JSON.parse(document.getElementById("data").textContent), grid = data.grid;
const box = document.getElementById("canvas").getBoundingClientRect();
const width = grid.columns * grid.cell[0], height = grid.rows * grid.cell[1];
const scale = 0.96 * Math.min(box.width / width, box.height / height);
return [(data.measurements.x[0] - grid.west - width / 2) * scale,
        (grid.south + height / 2 - data.measurements.y[0]) * scale,
        data.measurements.measured[0]];
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with a column's name that is a script; it must not run."""
    name = "head <img src=x onerror=document.title='run'>"
    return write_page(tiny_run(tmp_path_factory.mktemp("tiny"), value=name, misfit=FOUND))


def write_page(folder):
    read_run(folder).report()
    return folder / "report.html"


@pytest.fixture
def opened(browser, page):
    """The report in a window of a desktop, just opened."""
    return open_page(browser, page, "desktop")


def open_page(browser, page, window):
    set_window(browser, window)
    browser.get(page.as_uri())
    return browser


def choose(browser, statistic):
    browser.execute_script(f"document.querySelector('input[value={statistic}]').click()")


@pytest.mark.parametrize("window", list(WINDOWS))
def test_the_page_opens_without_errors_and_fits_the_window(browser, page, window):
    open_page(browser, page, window)
    assert browser.get_log("browser") == []
    width, height = WINDOWS[window]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    screenshot(browser, f"{window}-top")
    tall = browser.execute_script("return document.documentElement.scrollHeight")
    size = {"width": width, "height": tall, "deviceScaleFactor": 1, "mobile": window == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    screenshot(browser, f"{window}-all")
    assert tall > height


def test_what_users_wrote_does_not_run(opened):
    assert opened.title != "run"
    assert opened.find_element("tag name", "h1").text.startswith("head <img")
    assert opened.find_elements("tag name", "img") == []


def test_each_statistic_and_quantity_has_its_own_map(opened):
    seen = set()
    for statistic in ("mean", "sd", "exceed"):
        choose(opened, statistic)
        seen.add(opened.execute_script(MAP_PIXELS))
        screenshot(opened, f"desktop-{statistic}")
    options = opened.find_elements("css selector", "#quantity option")
    assert options[0].text.startswith("a new measurement of ")
    options[-1].click()
    seen.add(opened.execute_script(MAP_PIXELS))
    assert options[-1].text == "conductivity"
    assert len(seen) == 4


def test_the_slider_changes_the_map(opened):
    choose(opened, "exceed")
    titles = [opened.execute_script(SLIDE, 200)]
    first = opened.execute_script(MAP_PIXELS)
    titles.append(opened.execute_script(SLIDE, 700))
    assert opened.execute_script(MAP_PIXELS) != first
    assert titles[0] != titles[1]
    assert all(title.startswith("probability that") for title in titles)


def test_the_slider_obeys_the_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    choose(opened, "exceed")
    slider = opened.find_element("id", "threshold")
    before = float(slider.get_attribute("value"))
    slider.send_keys(Keys.ARROW_RIGHT * 3)
    assert float(slider.get_attribute("value")) == before + 3
    number = opened.find_element("id", "threshold-number").get_attribute("value")
    assert slider.get_attribute("aria-valuetext").split()[0][:4] == number[:4]


def test_all_exceed_a_low_threshold_and_none_a_high_one(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    choose(opened, "exceed")
    opened.find_element("id", "show-measurements").click()
    canvas = opened.find_element("id", "canvas")
    told = []
    for threshold in ("50", "150"):
        field = opened.find_element("id", "threshold-number")
        field.clear()
        field.send_keys(threshold)
        ActionChains(opened).move_to_element(canvas).move_by_offset(3, 3).perform()
        told.append(opened.find_element("id", "tip").text.splitlines()[-1])
    assert told == ["more than 50: 100 %", "more than 150: 0 %"]


def test_hovering_over_a_well_tells_its_values(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = opened.find_element("id", "canvas")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    x, y, measured = opened.execute_script(WELL_PLACE)
    ActionChains(opened).move_to_element_with_offset(canvas, round(x), round(y)).perform()
    lines = opened.find_element("id", "tip").text.splitlines()
    assert all(line.endswith(" m") for line in lines)
    assert [line.rsplit(" ", 2)[0] for line in lines] == [
        *("measured", "predicted", "residual", "sd of the prediction"),
    ]
    assert float(lines[0].split()[1]) == pytest.approx(measured, rel=1e-3)
    screenshot(opened, "desktop-hover")


@pytest.mark.parametrize("window", list(WINDOWS))
def test_a_dot_on_the_map_of_residuals_tells_what_it_is(browser, page, window):
    from selenium.webdriver.common.action_chains import ActionChains

    open_page(browser, page, window)
    figure = browser.find_element("id", "residuals")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    chart = figure.find_element("tag name", "svg")
    assert 0 < chart.rect["width"] <= WINDOWS[window][0]
    (ringed, _) = figure.find_elements("css selector", ".ringed circle")
    ActionChains(browser).move_to_element(ringed).click().perform()
    told = browser.find_element("id", "residual-words").text
    assert "sd from what the others predict" in told
    assert "k-hat" in told
    screenshot(browser, f"{window}-residuals")
    assert not [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]


@pytest.mark.parametrize("layer", ["flow", "mesh"])
def test_a_layer_is_drawn_where_it_is_asked_for(opened, layer):
    before = opened.execute_script(MAP_PIXELS)
    box = opened.find_element("id", f"show-{layer}")
    box.click()
    assert opened.execute_script(MAP_PIXELS) != before
    screenshot(opened, f"desktop-{layer}")
    box.click()
    assert opened.execute_script(MAP_PIXELS) == before


def test_zooming_shows_another_part_and_all_brings_it_back(opened):
    before = opened.execute_script(MAP_PIXELS)
    opened.find_element("id", "zoom-in").click()
    assert opened.execute_script(MAP_PIXELS) != before
    opened.find_element("id", "zoom-all").click()
    assert opened.execute_script(MAP_PIXELS) == before


SET_DATE = """
const slider = document.getElementById("date");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
return document.getElementById("date-text").textContent;
"""


def test_the_date_moves_the_map_and_the_line_of_the_hydrograph(browser, tmp_path):
    opened = open_page(browser, write_page(tiny_run_in_time(tmp_path)), "desktop")
    assert opened.find_element("id", "date-text").text == "1980-06-29"
    last = opened.execute_script(MAP_PIXELS)
    line = "return document.querySelector('#hydrograph .now').getAttribute('d')"
    place = opened.execute_script(line)
    assert opened.execute_script(SET_DATE, 0) == "1980-01-01"
    assert opened.execute_script(MAP_PIXELS) != last
    assert opened.execute_script(line) != place
    assert len(opened.find_elements("css selector", "#hydrograph circle")) == 2  # of well A
    sites = opened.find_elements("css selector", "#site option")
    assert [one.text for one in sites] == ["A", "B"]
    sites[1].click()
    assert len(opened.find_elements("css selector", "#hydrograph circle")) == 1
    assert not [one for one in opened.get_log("browser") if one["level"] == "SEVERE"]


def test_a_steady_report_has_no_dates(opened):
    assert not opened.find_element("id", "date-row").is_displayed()
    assert not opened.find_element("id", "hydrographs").is_displayed()


@pytest.mark.parametrize("window", list(WINDOWS))
def test_where_to_measure_next_fits_the_window(browser, tmp_path, window):
    folder = tiny_run_in_time(tmp_path, num_draws=40)
    read_run(folder).next("u", count=3, report=True)
    read_run(folder).next("exceed:0.5", candidates=[[0.5, 0.5], [1.5, 0.2]], count=2, report=True)
    open_page(browser, write_page(folder), window)
    assert browser.get_log("browser") == []
    width, _ = WINDOWS[window]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    section = browser.find_element("id", "next")
    assert len(section.find_elements("tag name", "svg")) == 2
    assert len(section.find_elements("css selector", ".chosen")) == 5
    browser.execute_script("arguments[0].scrollIntoView()", section)
    assert section.find_element("tag name", "h2").is_displayed()
    screenshot(browser, f"{window}-next")
