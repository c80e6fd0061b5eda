"""A real Chromium without a window: opens pages that commands wrote, and returns what its console and axe-core report.

Debian's packages ``chromium`` and ``chromium-driver`` hold it. Nothing is downloaded: the browser has no network.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.require import require

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which root cannot have
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


class Browser:
    """One window of Chromium. ``driver`` is Selenium's."""

    def __init__(self, driver: Chrome):
        self.driver = driver

    def open(self, page: Path, *, width: int = 1400, height: int = 1000, scheme: str = "light") -> None:
        """Loads a file in a window of this many CSS pixels, in a light or a dark ``scheme``."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.emulate("prefers-color-scheme", scheme)
        self.driver.get_log("browser")  # forgets what earlier pages wrote
        self.driver.get(page.absolute().as_uri())

    def emulate(self, feature: str, value: str, *, medium: str = "") -> None:
        """Sets a CSS media feature, and the ``medium`` (``"print"``; empty is the screen)."""
        emulated = {"media": medium, "features": [{"name": feature, "value": value}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a JavaScript function returns."""
        return self.driver.execute_script(script, *arguments)

    def messages(self) -> list[str]:
        """What the page wrote to the console since the last call, blocked requests and errors among it."""
        return [f"{each['level']}: {each['message']}" for each in self.driver.get_log("browser")]

    def violations(self) -> list[str]:
        """What axe-core objects to in the page: one line for each rule, with the first element that breaks it."""
        import axe_core_python

        axe = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
        self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
        options = "{resultTypes: ['violations']}"  # thousands of elements that break no rule would be described as well
        found = self.driver.execute_async_script(f"axe.run({options}).then(arguments[arguments.length - 1])")
        return [
            f"{each['id']}: {each['help']}; {len(each['nodes'])} times, such as {each['nodes'][0]['html'][:200]}: "
            f"{each['nodes'][0]['failureSummary']}"
            for each in found["violations"]
        ]

    def screenshot(self, to: Path, *, whole: bool = True) -> None:
        """Writes a PNG: of the whole page, however long, or of the window."""
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        to.write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]))


def start() -> Iterator[Browser]:
    """A browser, which ends with the iterator. A test is skipped, and in CI fails, where Chromium is missing."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    require(chromium and driver, "no chromium and chromedriver in PATH; Debian's are chromium and chromium-driver")
    options = ChromeOptions()
    options.binary_location = os.fspath(chromium or "")
    for each in OPTIONS:
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options, ChromeService(driver))
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium that the tests of one process share; each opens its own page in it."""
    yield from start()
