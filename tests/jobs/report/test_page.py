"""The page of a report in a real browser: its numbers are those of the tables, it is quiet, and anyone can use it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pytest
from tests.browser import Browser

import brokerless
from brokerless import arrow
from brokerless.arrow import table_of
from brokerless.errors import UsageError
from brokerless.jobs.report import charts, page
from brokerless.jobs.report.figures import Figures
from brokerless.jobs.report.job import gather
from brokerless.jobs.report.page_rows import finding_rows, topic_rows
from brokerless.jobs.report.schemas import FIGURES
from brokerless.jobs.report.sections import SECTIONS
from brokerless.jobs.run.types import ALONE
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"
NOW_MS = 1_795_000_000_000
HOSTILE = (
    "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">&amp;\u2028'"
)
VIEWS = {view.name: view for section in SECTIONS for view in section.tables}


@pytest.fixture(scope="module")
def figures() -> Figures:
    return gather(resolve(Location(str(DEMO))), resolve(Location(str(DEMO))).partitions, running=ALONE)


@pytest.fixture(scope="module")
def scripts() -> str:
    """Vega, which takes seconds to bundle."""
    return page.charts_script()


@pytest.fixture(autouse=True)
def bundled_once(scripts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "charts_script", lambda: scripts)


def write(figures: Figures, to: Path, path: str = "demo/data") -> Path:
    to.write_text(page.render(figures, path, NOW_MS, "brokerless 0"), "utf-8")
    return to


def show(browser: Browser, file: Path, **options: Any) -> float:
    """Opens a page; the seconds until everything is drawn."""
    started = monotonic()
    browser.open(file, **options)
    while not browser.run("return document.body.dataset.drawn"):
        assert monotonic() - started < 60, browser.messages()
        sleep(0.02)
    return monotonic() - started


def shown_rows(browser: Browser, name: str) -> list[list[str]]:
    """The texts of a table's cells, after all rows were asked for."""
    return browser.run(
        """
        const holder = document.querySelector(`[data-table="${arguments[0]}"]`);
        while (!holder.querySelector(".more").hidden) holder.querySelector(".more").click();
        return [...holder.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((each) => each.textContent));
        """,
        name,
    )


def text_of(kind: str, value: Any) -> str:
    """As the page has to write a value, by Python's own means."""
    if value is None:
        return ""
    if kind == "number":
        return f"{value:,}"
    if kind == "bytes":
        from brokerless.text import format_bytes

        return format_bytes(value)
    if kind == "share":
        return f"{Decimal(100 * value).quantize(Decimal('0.1'), ROUND_HALF_UP)} %"
    if kind == "command":
        return f"{value}copy" if value else ""
    if kind == "folded":
        return f"command{value}copy" if value else ""
    if kind == "places":
        first, *others = value
        return first + (f"and {len(others)} more" if others else "") + "".join(others)
    if kind == "time":
        from brokerless.views.text import format_times

        return format_times([value])[0].split(".")[0].replace("T", " ").removesuffix("Z")
    return str(value)


def topics(figures: Figures) -> list[dict[str, Any]]:
    return topic_rows(arrow.rows(figures["partitions"]), arrow.rows(figures["lag"]))


def test_every_number_is_that_of_the_tables(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"))
    for name, view in VIEWS.items():
        rows = arrow.rows(figures[name]) if name != "topics" else topics(figures)
        if name == "findings":
            rows = finding_rows(rows)
        elif name == "partitions":
            rows.sort(key=lambda row: -row["sizeInBytes"])
        expected = [[text_of(column.kind, column.of(row)) for column in view.columns] for row in rows]
        is_shown = [any(row[at] for row in expected) for at in range(len(view.columns))]
        expected = [[text for text, shown in zip(row, is_shown, strict=True) if shown] for row in expected]
        assert shown_rows(browser, name) == expected, name
        assert expected, name


def test_the_tiles_are_sums_of_the_tables(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"))
    tiles = {name: browser.run("return document.getElementById(arguments[0]).innerText", f"tile-{name}").split("\n")
             for name in ("verdict", "topics", "segments", "records", "size")}  # fmt: skip
    partitions, log = figures["partitions"], brokerless.open(DEMO)
    assert tiles["topics"][1:] == ["6", f"{len(log.partitions)} partitions"]
    assert tiles["segments"][1] == str(log.segments().num_rows)
    assert tiles["records"][1] == f"{sum(log.segments()['records'].to_pylist()):,}"
    assert tiles["size"][2] == f"{sum(partitions['sizeInBytes'].to_pylist()):,} bytes"
    assert tiles["verdict"][1:] == ["ok", "1 for information"]


def test_what_matters_most_is_a_tile(browser: Browser, tmp_path: Path):
    shutil.copytree(DEMO, tmp_path / "disk")
    log = tmp_path / "disk" / "orders-0" / "00000000000000000656.log"
    before = brokerless.open(tmp_path / "disk").partition("orders", 0).records(["offset"]).read_all().num_rows
    log.write_bytes(log.read_bytes()[:20000])
    found = brokerless.open(tmp_path / "disk")
    after = found.partition("orders", 0).records(["offset"], on_damage=lambda _: None).read_all().num_rows

    def tile(name: str) -> list[str]:
        return browser.run("return document.getElementById(arguments[0]).innerText", f"tile-{name}").split("\n")

    found.report(tmp_path / "report.html")
    show(browser, tmp_path / "report.html")
    assert tile("lost")[1:] == [str(before - after), "in no intact batch"]
    assert tile("start")[1] == "yes"
    (tmp_path / "disk" / "lost+found").mkdir()
    brokerless.open(tmp_path / "disk").report(tmp_path / "report.html")
    show(browser, tmp_path / "report.html")
    assert tile("start")[1] == "no"
    assert "lost+found" in tile("start")[2]
    shutil.rmtree(tmp_path / "disk" / "lost+found")
    shutil.rmtree(tmp_path / "disk")
    shutil.copytree(DEMO, tmp_path / "disk")
    (tmp_path / "disk" / "payments-0" / "00000000000000000000.txnindex").unlink()
    brokerless.open(tmp_path / "disk").report(tmp_path / "report.html")
    show(browser, tmp_path / "report.html")
    assert tile("start")[1:] == ["yes", "with the errors that are listed below"]
    brokerless.open(tmp_path / "disk" / "orders-0").report(tmp_path / "report.html")
    show(browser, tmp_path / "report.html")
    assert tile("start")[1] == "not known"


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_the_page_has_all_but_charts(
    browser: Browser, figures: Figures, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, missing, None)
    said: list[str] = []
    text = page.render(figures, "demo/data", NOW_MS, "brokerless 0", None, said.append)
    (tmp_path / "report.html").write_text(text, "utf-8")
    show(browser, tmp_path / "report.html")
    assert browser.messages() == []
    assert browser.violations() == []
    assert browser.run("return document.querySelectorAll('[data-chart]').length") == 0
    assert shown_rows(browser, "partitions")
    assert len(said) == 1
    assert "pip install 'brokerless" in said[0]
    assert "Without charts" in browser.run("return document.body.innerText")


def test_charts_have_the_rows_of_the_figures(browser: Browser, figures: Figures, tmp_path: Path):
    """What Vega drew, not what it was given: each mark's datum."""
    show(browser, write(figures, tmp_path / "report.html"))
    marks = """
        const items = [];
        (function walk(node) {
          if (node.marktype && node.marktype !== "group" && node.role === "mark") items.push(...node.items);
          (node.items || []).forEach(walk);
        })(views[arguments[0]].scenegraph().root);
        return items.filter((item) => item.mark.name !== arguments[1]).map(
          (item) => [item.datum, item.bounds.x2 - item.bounds.x1, item.bounds.y2 - item.bounds.y1]);
    """
    partitions = {f"{row['topic']}-{row['partition']}": row for row in arrow.rows(figures["partitions"])}
    drawn = [each for each in browser.run(marks, "sizes") if "label" in each[0] and "middle" not in each[0]]
    assert {each["label"]: each["sizeInBytes"] for each, *_ in drawn} == {
        name: row["sizeInBytes"] for name, row in partitions.items()
    }
    areas = {each["label"]: width * height for each, width, height in drawn}
    assert areas["orders-2"] / areas["payments-0"] == pytest.approx(
        partitions["orders-2"]["sizeInBytes"] / partitions["payments-0"]["sizeInBytes"], rel=0.05
    )
    bars = browser.run(marks, "timeline", "layer_0_marks")  # without the ticks under the bars
    assert len(bars) == figures["segments"].num_rows
    assert {each["lastOffset"] for each, *_ in bars} == set(figures["segments"]["lastOffset"].to_pylist())
    records = sum(figures["throughput"]["records"].to_pylist())
    assert sum(each["records"] for each, *_ in browser.run(marks, "throughput")) == records
    batches = sum(figures["batchSizes"]["batches"].to_pylist())
    assert sum(each["batches"] for each, *_ in browser.run(marks, "batchSizes")) == batches
    assert sum(each["batches"] for each, *_ in browser.run(marks, "compression")) == batches


def test_tables_are_searched_and_sorted(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"))
    browser.run("""
        const search = document.querySelector('[data-table="segments"] input');
        search.value = "ORDERS-1 lz4";
        search.dispatchEvent(new Event("input"));
    """)
    rows = [row for row in arrow.rows(figures["segments"]) if (row["topic"], row["partition"]) == ("orders", 1)]
    expected = sorted(f"{row['lastOffset']:,}" for row in rows if "lz4" in row["compressions"])
    assert sorted(row[2] for row in shown_rows(browser, "segments")) == expected
    assert f"{len(expected)} of 24" in browser.run("return document.querySelector('[data-table=segments]').innerText")
    for direction in ("ascending", "descending"):
        browser.run("""document.querySelector('[data-table="partitions"] th:nth-child(4) button').click()""")
        sizes = sorted((row["records"] for row in arrow.rows(figures["partitions"])), reverse=direction == "descending")
        assert [row[3] for row in shown_rows(browser, "partitions")] == [f"{size:,}" for size in sizes]
        head = (
            """return document.querySelector('[data-table="partitions"] th:nth-child(4)').getAttribute("aria-sort")"""
        )
        assert browser.run(head) == direction


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1400, "light")])
def test_a_page_is_quiet_accessible_and_as_wide_as_its_window(
    browser: Browser, figures: Figures, tmp_path: Path, width: int, scheme: str
):
    show(browser, write(figures, tmp_path / "report.html"), width=width, scheme=scheme)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.violations() == []
    assert browser.messages() == []
    assert browser.run("return document.documentElement.scrollWidth") == width
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == (scheme == "dark")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_column_of_a_table_is_cut(browser: Browser, figures: Figures, tmp_path: Path, width: int):
    long = "a.very-long-topic_name." * 10
    named = {
        name: each.set_column(at, "topic", pa.array([long] * len(each), each.schema.field(at).type))
        if (at := each.schema.get_field_index("topic")) >= 0
        else each
        for name, each in figures.items()
    }
    show(browser, write(named, tmp_path / "report.html"), width=width)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    cut = browser.run(
        "return [...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
        ".map((each) => each.getAttribute('aria-label'))"
    )
    assert cut == []


def test_on_a_phone_each_row_is_a_card_with_the_names_of_its_columns(
    browser: Browser, figures: Figures, tmp_path: Path
):
    show(browser, write(figures, tmp_path / "report.html"), width=390)
    for name, title in (("partitions", '"segments: "'), ("findings", "none")):
        places = "return getComputedStyle(document.querySelector(`[data-table=${arguments[0]}] td:nth-child(2)`)%s).%s"
        assert browser.run(places % (", '::before'", "content"), name).replace('attr(data-title) ": "', title) == title
        assert browser.run(places % ("", "display"), name) == "block"


def test_a_dark_page_prints_light(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"), scheme="dark")
    browser.emulate("prefers-color-scheme", "dark", medium="print")
    assert browser.run("return getComputedStyle(document.querySelector('h1')).color") == "rgb(27, 35, 48)"
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.emulate("prefers-color-scheme", "light")


def test_keys_reach_all_controls(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"))
    from selenium.webdriver import ActionChains, Keys

    names: list[str] = []
    for _ in range(80):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        names.append(browser.run("return (document.activeElement.className || document.activeElement.tagName) + ''"))
    assert names[0] == "skip"
    assert {"A", "BUTTON", "INPUT", "scroll"} <= set(names)


def hostile_figures() -> Figures:
    segment = dict.fromkeys(FIGURES["segments"].names) | {
        "topic": HOSTILE, "partition": 0, "file": f"/{HOSTILE}/0.log", "baseOffset": 0, "firstOffset": 0,
        "lastOffset": 2**63 - 1, "sizeInBytes": 100, "validBytes": 100, "batches": 1, "records": 1, "minTimestamp": 0,
        "maxTimestamp": 2**63 - 1, "magics": [2, -1], "compressions": ["none"], "hasOffsetIndex": False,
        "hasTimeIndex": False, "hasTransactionIndex": False, "gapBefore": 5, "leaderEpochs": [],
    }  # fmt: skip
    sums = {"batches": 1, "records": 1, "sizeInBytes": 100}
    place = {"topic": HOSTILE, "partition": 0}
    rows: dict[str, list[dict[str, Any]]] = {
        "partitions": [place | sums | {"segments": 1, "firstOffset": 0, "lastOffset": 1, "minTimestamp": 0,
                       "maxTimestamp": 2**63 - 1}],
        "segments": [segment],
        "throughput": [{"topic": HOSTILE, "start": 0, "end": 3_600_000, **sums}],
        "batchSizes": [{"topic": HOSTILE, "fromBytes": 64, "belowBytes": 128, **sums}],
        "compression": [{"topic": HOSTILE, "magic": 2, "compression": None, **sums}],
        "topicSizes": [{"topic": HOSTILE, "format": None, "compression": None, "batchBytes": None, "sizeInBytes": 1,
                        "low": 1, "high": 2**63 - 1, "currentSizeInBytes": 0, "isCurrent": False, "isBest": True,
                        "isExact": False,
                        "command": f"brokerless convert '{HOSTILE}'"}],
        "producers": [place | sums | {"producerId": 1, "producerEpoch": 0, "transactionalBatches": 0,
                      "minTimestamp": None, "maxTimestamp": None}],
        "transactions": [place | {"committed": 1, "aborted": 0, "open": 0, "withoutData": 0}],
        "lag": [place | {"group": HOSTILE, "offset": 1, "endOffset": None, "lag": None, "commitTimestamp": None}],
        "findings": [place | {"severity": "error", "kind": "checksum-mismatch", "file": f"/{HOSTILE}/0.log",
                     "position": 5, "offset": 7, "message": HOSTILE, "expected": HOSTILE, "found": None,
                     "advice": "nothing"}],
    }  # fmt: skip
    return {name: table_of(rows[name], schema) for name, schema in FIGURES.items()}


def test_equal_findings_are_one_row_and_damaged_partitions_are_in_the_time_line(browser: Browser, tmp_path: Path):
    shutil.copytree(DEMO, tmp_path / "disk")
    for log in sorted((tmp_path / "disk" / "orders-0").glob("*.log")):
        damaged = bytearray(log.read_bytes())
        damaged[len(damaged) // 2] ^= 0xFF
        log.write_bytes(damaged)
    brokerless.open(tmp_path / "disk").report(tmp_path / "report.html")
    show(browser, tmp_path / "report.html")
    findings = shown_rows(browser, "findings")
    assert len({(row[0], row[1]) for row in findings}) == len(findings)
    row = next(row for row in findings if "checksum" in row[1])
    assert row[2] == "4"
    assert "and 3 more" in row[3]
    assert row[3].count("orders-0/") == 4
    assert browser.run("return document.getElementById('tile-verdict').innerText").split("\n")[1] == "4 errors"
    topic = {row[0]: row for row in shown_rows(browser, "topics")}
    heads = browser.run("return [...document.querySelectorAll('[data-table=topics] th')].map((each) => each.innerText)")
    policy, retention = (heads.index(name) for name in ("cleanup.policy", "retention"))
    assert (topic["users"][policy], topic["users"][retention]) == ("compact", "all keys")
    assert (topic["orders"][policy], topic["orders"][retention]) == ("delete (default)", "unlimited")


def test_print_has_all_rows_and_what_is_folded(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"))
    count = """return [document.querySelectorAll("[data-table=producers] tbody tr").length,
        document.querySelectorAll("details:not([open])").length]"""
    rows, closed = browser.run(count)
    assert rows < figures["producers"].num_rows
    assert closed > 20
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(count) == [figures["producers"].num_rows, 0]
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(count)[1] == closed


def test_a_copy_button_is_beside_each_command(browser: Browser, figures: Figures, tmp_path: Path):
    show(browser, write(figures, tmp_path / "report.html"))
    codes, buttons = browser.run("""
        return [document.querySelectorAll("td code").length, document.querySelectorAll("td code + button.copy").length]
    """)
    assert codes == buttons > 20


def test_nothing_of_a_log_becomes_a_script(browser: Browser, tmp_path: Path):
    file = write(hostile_figures(), tmp_path / "report.html", path=HOSTILE)
    show(browser, file)
    assert browser.messages() == []
    assert "owned" not in browser.run("return document.title").split("'")[0]
    assert browser.run("return document.querySelectorAll('img, script').length") == 3
    assert browser.run("return document.querySelector('h1').textContent").startswith("</script><script>")
    assert "9,223,372,036,854,775,807" in shown_rows(browser, "segments")[0]  # which JavaScript's numbers do not hold
    for name in ("segments", "lag", "findings", "topicSizes"):
        assert any("</script><script>" in text for row in shown_rows(browser, name) for text in row)
    script = """
        const injected = document.createElement("script");
        injected.textContent = "document.title = 'injected'";
        document.body.append(injected);
        return document.title;
    """
    assert browser.run(script) != "injected"  # by the policy, whatever may get into the page
    assert any("Content Security Policy" in each for each in browser.messages())


def test_a_page_refers_to_no_network(figures: Figures, scripts: str):
    text = page.render(figures, "demo/data", NOW_MS, "brokerless 0").replace(scripts, "")
    assert set(re.findall(r"https?://[^\"'\s<]*", text)) <= {
        "https://vega.github.io/schema/vega-lite/v6.4.1.json"
    } | set(re.findall(r"https://vega\.github\.io/schema/vega-lite/[v\d.]+json", text))
    assert "default-src 'none'" in text
    assert "unsafe-eval" not in text


def test_an_empty_log_has_a_page(browser: Browser, tmp_path: Path):
    empty = {name: table_of([], schema) for name, schema in FIGURES.items()}
    show(browser, write(empty, tmp_path / "report.html"))
    assert browser.messages() == []
    assert browser.violations() == []
    assert "There are no segments." in browser.run("return document.body.innerText")


def many_segments(count: int) -> Figures:
    hour = 3_600_000
    rows = [
        {"topic": f"topic-{at % 12}", "partition": at % 40, "file": f"/data/topic-{at % 12}-{at % 40}/{at:020}.log",
         "baseOffset": at * 1000, "firstOffset": at * 1000, "lastOffset": at * 1000 + 999, "sizeInBytes": 1 << 30,
         "validBytes": 1 << 30, "batches": 1000, "records": 1000, "minTimestamp": NOW_MS + at * hour // 40,
         "maxTimestamp": NOW_MS + at * hour // 40 + 20 * hour, "magics": [2], "compressions": ["lz4", "zstd"][: at % 3],
         "hasOffsetIndex": True, "hasTimeIndex": True, "hasTransactionIndex": False, "gapBefore": at % 100 == 0,
         "leaderEpochs": [at % 7]}
        for at in range(count)
    ]  # fmt: skip
    figures = {name: table_of([], schema) for name, schema in FIGURES.items()}
    figures["segments"] = table_of(rows, FIGURES["segments"])
    sums = {"batches": 1000, "records": 1000, "sizeInBytes": 1 << 30}
    times = [{"topic": f"topic-{at % 12}", "start": NOW_MS // hour * hour + at * hour,
              "end": NOW_MS // hour * hour + (at + 1) * hour, **sums} for at in range(5000)]  # fmt: skip
    figures["throughput"] = table_of(times, FIGURES["throughput"])
    return figures


def test_ten_thousand_segments_are_a_page_below_five_megabytes(browser: Browser, tmp_path: Path):
    file = write(many_segments(10_000), tmp_path / "report.html")
    assert file.stat().st_size < 5_000_000
    show(browser, file)
    assert browser.messages() == []
    assert "10,000 in all" in browser.run("return document.querySelector('[data-table=segments]').innerText")


def test_json_in_html_is_what_was_given():
    value = [HOSTILE, {"\u2029<!--": 1}]
    text = page.json_in_html(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_charts_say_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(UsageError, match="pip install 'brokerless"):
        charts.vega_altair()


def test_plots_of_a_log_are_those_of_the_page(figures: Figures):
    log = brokerless.open(DEMO)
    for name, chart in (
        ("sizes", log.plot.sizes()),
        ("timeline", log.plot.timeline()),
        ("throughput", log.plot.throughput()),
        ("batchSizes", log.plot.batch_sizes()),
        ("compression", log.plot.compression()),
    ):
        expected = charts.CHARTS[name](figures).to_dict()
        assert json.dumps(chart.to_dict()).replace(str(DEMO), "") == json.dumps(expected).replace(str(DEMO), "")


def test_lag_is_what_is_left_to_read(figures: Figures):
    (row,) = arrow.rows(figures["lag"])
    end = brokerless.open(DEMO).partition("orders", 2).end_offset
    assert end is not None
    assert (row["group"], row["endOffset"], row["lag"]) == ("shipping", end, end - 500)


def test_findings_are_those_of_the_audit_with_advice(tmp_path: Path):
    (directory := tmp_path / "orders-0").mkdir()
    for file in (DEMO / "orders-0").iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    log = next(iter(sorted(directory.glob("*.log"))))
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    log.write_bytes(damaged)
    found = arrow.rows(
        gather(resolve(Location(str(directory))), resolve(Location(str(directory))).partitions, running=ALONE)[
            "findings"
        ]
    )
    audited = brokerless.open(directory).partitions[0].audit().findings
    assert {(row["kind"], row["position"]) for row in found} == {(each.kind, each.position) for each in audited}
    assert found[0]["severity"] == "error"
    assert found[0]["kind"] == "checksum-mismatch"
    assert "another replica" in found[0]["advice"]
