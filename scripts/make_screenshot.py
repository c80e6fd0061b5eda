"""Makes docs/images/report.png: the top of the report of demo/data, in Chromium.

python -m scripts.make_screenshot
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import sleep

from tests.browser import start

import brokerless

ROOT = Path(__file__).parents[1]
IMAGE = ROOT / "docs" / "images" / "report.png"
LARGEST = 300_000


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "report.html"
        brokerless.open("demo/data").report(page)
        for browser in start():
            browser.open(page, width=1200, height=1560)
            while not browser.run("return document.body.dataset.drawn"):
                sleep(0.1)
            browser.screenshot(IMAGE, whole=False)
    size = IMAGE.stat().st_size
    print(f"{IMAGE.relative_to(ROOT)}: {size:,} bytes")
    return 0 if size < LARGEST else 1


if __name__ == "__main__":
    sys.exit(main())
