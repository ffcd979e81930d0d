"""From a table to a report without a keyboard but for names, in a real browser."""

import json
import shutil
import time

import numpy as np
import pytest
from tests.browser.conftest import WINDOWS, screenshot, set_window
from tests.window import TOKEN, Window

pytestmark = pytest.mark.browser

SECONDS = 120


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 10, (40, 2))
    values = 5 + np.sin(places[:, 0] / 3) + 0.1 * places[:, 1] + 0.05 * rng.normal(size=40)
    rows = [f"{x},{y},{v}" for (x, y), v in zip(places, values, strict=True)]
    # A column whose name is a script; it must not run.
    name = "<img src=x onerror=document.title='run'>"
    (folder / "heads.csv").write_text("\n".join([f"x,y,{name}", *rows, ""]))
    opened = Window(folder)
    yield opened
    opened.close()


@pytest.fixture
def opened(browser, window):
    set_window(browser, "desktop")
    browser.get(f"http://127.0.0.1:{window.port}/?token={TOKEN}")
    return browser


def wait(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, SECONDS, 0.2).until(condition)


def part(browser, name):
    return browser.find_element("id", name)


def pick(browser, name, words):
    from selenium.webdriver.support.ui import Select

    wait(browser, lambda _: words in part(browser, name).text)
    Select(part(browser, name)).select_by_visible_text(words)


def press(browser, place, words):
    """The button that says so."""
    every = part(browser, place).find_elements("tag name", "button")
    next(one for one in every if one.text == words).click()


def click_at(browser, x, y):
    """On the map, by shares of its size from its middle."""
    from selenium.webdriver import ActionChains

    canvas = part(browser, "map")
    across, up = x * canvas.size["width"] / 2, y * canvas.size["height"] / 2
    ActionChains(browser).move_to_element_with_offset(canvas, across, -up).click().perform()


def test_a_table_an_outline_a_fit_and_its_report(opened, window):
    pick(opened, "table", "heads.csv")
    wait(opened, lambda _: part(opened, "map-words").text.startswith("40 measurements"))
    assert "40 rows" in part(opened, "table-words").text
    part(opened, "draw").click()
    for x, y in [(-0.5, -0.95), (0.5, -0.95), (0.5, 0.95), (-0.5, 0.95)]:
        click_at(opened, x, y)
    part(opened, "close-outline").click()
    wait(opened, lambda _: "outline-" in part(opened, "text").get_attribute("value"))
    screenshot(opened, "window-outline")
    part(opened, "check").click()
    wait(opened, lambda _: "is understood" in part(opened, "checked").text)
    part(opened, "fit").click()
    wait(opened, lambda _: "run: done" in part(opened, "runs").text)
    assert part(opened, "error").text == ""
    part(opened, "runs").find_element("tag name", "button").click()
    opened.switch_to.frame(part(opened, "report"))
    wait(opened, lambda _: opened.find_elements("id", "quantity"))
    assert part(opened, "quantity").text
    opened.switch_to.default_content()
    for name in WINDOWS:
        set_window(opened, name)
        time.sleep(0.5)  # until the report has its new width
        screenshot(opened, f"window-{name}")
        width = opened.execute_script("return document.documentElement.scrollWidth")
        assert width <= WINDOWS[name][0]
    # Another run appears, is held against the one that is open; and where to measure next.
    shutil.copytree(window.folder / "run", window.folder / "other")
    wait(opened, lambda _: "other: done" in part(opened, "runs").text)
    press(opened, "runs", "Compare with run")
    wait(opened, lambda _: "other" in part(opened, "compared").text)
    press(opened, "take", "where to measure next")
    wait(opened, lambda _: (window.folder / "run" / "next.csv").is_file())
    assert part(opened, "error").text == ""
    assert opened.title == "Riesz"
    assert opened.get_log("browser") == []


def test_an_error_is_a_line_on_the_page(opened, window):
    (window.folder / "words.csv").write_text("x,y,v\n1,2,many\n2,3,few\n")
    pick(opened, "table", "words.csv")
    wait(opened, lambda _: part(opened, "error").text)
    assert "words.csv" in part(opened, "error").text
    assert "Traceback" not in opened.page_source


def test_an_outline_is_drawn_by_keys(opened, window):
    from selenium.webdriver.common.keys import Keys

    pick(opened, "table", "heads.csv")
    wait(opened, lambda _: part(opened, "map-words").text.startswith("40 measurements"))
    part(opened, "draw").click()
    canvas = part(opened, "map")
    for keys in (Keys.ARROW_LEFT * 20 + " ", Keys.ARROW_UP * 15 + " ", Keys.ARROW_RIGHT * 20 + " "):
        canvas.send_keys(keys)
    canvas.send_keys(Keys.ENTER)
    wait(opened, lambda _: part(opened, "polygon").get_attribute("value").startswith("outline-"))
    name = part(opened, "polygon").get_attribute("value")
    (ring,) = json.loads((window.folder / name).read_text())["coordinates"]
    assert len(ring) == 4  # three corners, the first of them again at the end
    assert ring[1][0] == ring[0][0]
    assert ring[1][1] > ring[0][1]
    assert ring[2][0] > ring[1][0]
