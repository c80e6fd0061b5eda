"""The page in a real browser: bytes and fields lead to each other, and what it shows is what the JSON has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.browser import Browser
from tests.golden import broker_data, case

from brokerless.errors import UnwritableError
from brokerless.explanation.files import Explanation, build_batch, explain, explain_built
from brokerless.views.explain.json_lines import json_lines
from brokerless.views.explain.page import MOST_BYTES, render, write_page
from brokerless.views.explain.terminal import share

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&amp;'\u2028"
ROWS = """
return [...document.querySelectorAll("tbody tr")].filter((row) => !row.classList.contains("group"))
    .map((row) => [...row.cells].slice(0, 5).map((cell) => cell.textContent));
"""
DUMP = """
const bytes = (field) => [...document.querySelectorAll(`.bytes a[data-first="${field}"]`)];
return [...document.querySelectorAll("tbody tr[id]")].map((row) =>
    bytes(row.dataset.first).map((each) => each.textContent).join(" "));
"""
HOVER = "arguments[0].dispatchEvent(new MouseEvent('mouseover', { bubbles: true }))"
MARKED = """
const of = (selector, text) => [...document.querySelectorAll(selector)].map(text);
return [of("tr.marked", (each) => each.cells[1].textContent), of("a.marked", (each) => each.textContent).join(" ")];
"""


def show(browser: Browser, explanation: Explanation, to: Path, **options: Any) -> None:
    (to / "explain.html").write_text(render(explanation, "brokerless 0"), "utf-8")
    browser.open(to / "explain.html", **options)


def lines_of(explanation: Explanation) -> list[dict[str, Any]]:
    """The lines in the order of the page: what is inside of payloads comes after their batch."""
    found: list[dict[str, Any]] = []
    inside: list[dict[str, Any]] = []
    for line in json_lines(explanation):
        found.append(line)
        inflated: Any = line.get("inflated")
        inside += inflated["fields"] if inflated else []
    return [*found, *inside]


EXPLAINED = {
    "v2": explain(case("articles/v2-two-records").log),
    "compressed": explain(case("formats/v2-lz4-create").log, records=3),
    "wrapper": explain(case("formats/v1-gzip-append").log, records=2),
    "damaged": explain(case("damaged/record-key-length-varint-6-bytes").log, position=78),
    "index": explain(next(case("specials/segment-v2").path.glob("*.timeindex")), records=3),
    "internal": explain(next((broker_data("clean") / "__consumer_offsets-0").glob("*.log")), records=2),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_rows_and_bytes_are_those_of_the_json(browser: Browser, tmp_path: Path, name: str) -> None:
    explanation = EXPLAINED[name]
    show(browser, explanation, tmp_path)
    lines = lines_of(explanation)
    rows = browser.run(ROWS)
    assert [row[:3] for row in rows] == [[str(line["position"]), line["name"], str(line["length"])] for line in lines]
    for row, line, digits in zip(rows, lines, browser.run(DUMP), strict=True):
        assert digits.replace(" ", "") == line["bytes"][: 2 * MOST_BYTES]
        assert abs(float(row[4].removesuffix("%")) - 100 * line["share"]) < 0.06
        if isinstance(line["value"], int) and not isinstance(line["value"], bool):
            assert row[3] == str(line["value"])
        elif isinstance(line["value"], str) and line["value"].isprintable():
            assert row[3] == line["value"]
        elif line["value"] is None:
            assert row[3] == ""
    assert browser.messages() == []


def test_pointing_at_bytes_shows_their_field_and_at_a_field_its_bytes(browser: Browser, tmp_path: Path) -> None:
    show(browser, EXPLAINED["v2"], tmp_path)
    for line in lines_of(EXPLAINED["v2"]):
        digits = bytes.fromhex(line["bytes"]).hex(" ")
        of_bytes = browser.run(
            "return [...document.querySelectorAll('tr[id]')].find((row) => row.cells[0].textContent === arguments[0])",
            str(line["position"]),
        )
        number = of_bytes.get_attribute("data-first")
        (first, *_) = browser.run(f"return [...document.querySelectorAll('.bytes a[data-first=\"{number}\"]')]")
        for element in (first, of_bytes):
            browser.run(HOVER, browser.run("return document.querySelector('h1')"))
            browser.run(HOVER, element)
            assert browser.run(MARKED) == [[line["name"]], digits]
            named = browser.run("return document.getElementById('named').textContent")
            assert named.startswith(f"{line['name']} at {line['position']}, {line['length']} B")


def test_pointing_at_a_group_shows_all_its_bytes(browser: Browser, tmp_path: Path) -> None:
    show(browser, EXPLAINED["v2"], tmp_path)
    row = browser.run(
        "return [...document.querySelectorAll('tr.group')].find((each) => each.innerText.includes('[1]'))"
    )
    browser.run(HOVER, row)
    names, digits = browser.run(MARKED)
    assert names == ["record[1]"]
    assert bytes.fromhex(digits) == case("articles/v2-two-records").log.read_bytes()[76:]


def test_all_of_it_works_with_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    show(browser, EXPLAINED["v2"], tmp_path)

    def press(*keys: str) -> None:
        ActionChains(browser.driver).send_keys(*keys).perform()

    press(Keys.TAB, Keys.TAB)  # past the link that skips
    assert browser.run(MARKED)[0] == ["base_offset"]
    press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert browser.run(MARKED) == [["partition_leader_epoch"], "ff ff ff ff"]
    press(Keys.ARROW_LEFT, Keys.ENTER)
    assert browser.run("return location.hash") == "#field-1"
    press(Keys.TAB)
    assert browser.run(MARKED)[0] == ["size"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_anyone_can_read_it(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    for name in ("compressed", "damaged", "index"):
        show(browser, EXPLAINED[name], tmp_path, width=width, scheme=scheme)
        browser.run(HOVER, browser.run("return document.querySelector('tr[id]')"))
        assert browser.violations() == [], name
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.messages() == []


def test_nothing_of_a_log_becomes_html_or_a_script(browser: Browser, tmp_path: Path) -> None:
    explanation = explain_built(build_batch(2, "none", [(0, HOSTILE.encode(), b"\xff" + HOSTILE.encode())]))
    hostile = Explanation(f"{HOSTILE}.log", explanation.kind, explanation.fields)
    show(browser, hostile, tmp_path)
    shown = browser.run("return document.body.innerText")
    assert HOSTILE.removesuffix("\u2028") in shown
    for row in browser.run("return [...document.querySelectorAll('tr[id], .bytes a')]"):
        browser.run(HOVER, row)
    assert "owned" not in browser.run("return document.title").partition("<")[0]
    assert browser.run("return document.querySelectorAll('img, main script').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 1
    assert browser.messages() == []


def test_long_fields_are_cut_and_say_so() -> None:
    page = render(explain_built(build_batch(2, "none", [(0, None, b"x" * 5000)])), "")
    assert f"... {5000 - MOST_BYTES:,} more bytes" in page
    assert "... 1,000 more characters" in page
    assert share(5000, 5070) in page


def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnwritableError):
        write_page(EXPLAINED["v2"], str(tmp_path / "missing" / "explain.html"))
