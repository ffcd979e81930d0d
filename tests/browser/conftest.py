"""A browser without a screen, and windows of two sizes; screenshots go to out/browser."""

import shutil
from pathlib import Path

import pytest

SCREENSHOTS = Path("out/browser")
WINDOWS = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    # As root there is no sandbox, and containers have little shared memory.
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def set_window(browser, window):
    width, height = WINDOWS[window]
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": window == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def screenshot(browser, name):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    assert browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
