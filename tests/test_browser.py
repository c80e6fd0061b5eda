"""The browser reports what is wrong with a page, so that a test of a page can fail."""

from __future__ import annotations

from pathlib import Path

from tests.browser import Browser

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Good</title></head>
<body><main><h1>Good</h1></main></body></html>"""


def test_browser_reports_messages_and_violations(browser: Browser, tmp_path: Path):
    (tmp_path / "good.html").write_text(GOOD)
    browser.open(tmp_path / "good.html")
    assert browser.messages() == []
    assert browser.violations() == []

    script = "<img src='http://127.0.0.1:9/missing.png'><script>throw new Error('broken')</script>"
    (tmp_path / "bad.html").write_text(GOOD.replace("<h1>Good</h1>", script))
    browser.open(tmp_path / "bad.html")
    messages = browser.messages()
    assert any("broken" in each for each in messages)
    assert any("missing.png" in each for each in messages)
    assert any(each.startswith("image-alt: ") for each in browser.violations())


def test_browser_emulates_size_and_scheme(browser: Browser, tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(GOOD)
    for width, scheme in ((400, "light"), (1400, "dark")):
        browser.open(page, width=width, scheme=scheme)
        assert browser.run("return innerWidth") == width
        assert browser.run(f"return matchMedia('(prefers-color-scheme: {scheme})').matches")
        browser.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").read_bytes()[16:20] == width.to_bytes(4, "big")
