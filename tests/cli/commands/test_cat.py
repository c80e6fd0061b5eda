"""``cat`` on files that real brokers wrote; what they hold is what Kafka's reader gave."""

from __future__ import annotations

import base64
import csv
import io
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, broker_expected, case, cases, json_lines
from tests.require import require

DATA = broker_data("clean")
PARTITION = DATA / "segments-0"
DEMO = Path(__file__).parents[3] / "demo" / "data"


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    lines = json_lines(broker_expected("clean") / "segments-0" / "expected.jsonl")
    return [line for line in lines if line["type"] == "record"]


def offsets(lines: list[dict[str, Any]]) -> list[int]:
    return [line["offset"] for line in lines]


def value(record: dict[str, Any]) -> bytes:
    return base64.b64decode(record["value"])


def test_the_partition_of_these_tests_has_several_segments(records: list[dict[str, Any]]) -> None:
    assert len(list(PARTITION.glob("*.log"))) > 3
    assert len(records) > 100


def test_text_is_a_line_for_each_record(run: Run, records: list[dict[str, Any]]) -> None:
    result = run("cat", PARTITION)
    assert (result.exit_code, result.err) == (0, "")
    assert [int(line.split("\t")[1]) for line in result.lines] == offsets(records)
    assert all(line.startswith("segments-0\t") for line in result.lines)


def test_a_template_writes_exact_bytes(run: Run, records: list[dict[str, Any]]) -> None:
    result = run("cat", PARTITION, "-f", r"%o=%s\0")
    assert result.out == b"".join(b"%d=%s\0" % (record["offset"], value(record)) for record in records)


def test_a_range_of_offsets_crosses_segments(run: Run, records: list[dict[str, Any]]) -> None:
    first, last = records[30]["offset"], records[-30]["offset"]
    assert offsets(run("cat", "--json", "--offset", f"{first}:{last}", PARTITION).json) == offsets(records)[30:-30]
    assert offsets(run("cat", "--json", "--offset", last, PARTITION).json) == offsets(records)[-30:]


def test_a_range_of_times_is_that_of_the_records_timestamps(run: Run, records: list[dict[str, Any]]) -> None:
    times = sorted(record["timestamp"] for record in records)
    start, end = times[len(times) // 4], times[len(times) // 2]
    given = run("cat", "--json", "--from", start, "--until", end, PARTITION).json
    assert offsets(given) == [record["offset"] for record in records if start <= record["timestamp"] < end]


def test_relative_times_are_options_values_although_they_begin_with_a_dash(run: Run) -> None:
    assert run("cat", "--from", "-1s", PARTITION).out == b""
    assert len(run("cat", "--until", "-1s", PARTITION).lines) > 100


def test_a_limit_counts_for_each_partition(run: Run, records: list[dict[str, Any]]) -> None:
    assert offsets(run("cat", "--json", "--limit", 7, PARTITION, PARTITION).json) == offsets(records)[:7] * 2
    assert run("cat", "--limit", 0, PARTITION).out == b""
    for option in ("--limit", "--tail"):
        assert offsets(run("cat", "--json", option, 2**63, PARTITION).json) == offsets(records)


@pytest.mark.parametrize("count", [0, 1, 7, 100, 10**9])
def test_a_tail_is_the_last_records_of_each_partition(run: Run, records: list[dict[str, Any]], count: int) -> None:
    expected = offsets(records)[len(records) - min(count, len(records)) :]
    assert offsets(run("cat", "--json", "--tail", count, PARTITION).json) == expected
    assert len(run("cat", "--tail", 1, DATA, "-t", "codec-lz4").lines) == 4


def test_a_tail_of_what_is_committed_counts_only_that(run: Run) -> None:
    committed = run("cat", "--json", "--isolation", "read_committed", DATA / "txn-0").json
    last = run("cat", "--json", "--isolation", "read_committed", "--tail", 5, DATA / "txn-0").json
    assert last == committed[-5:]


def test_control_records_are_shown_when_asked_for(run: Run) -> None:
    plain = run("cat", "--json", DATA / "txn-0").json
    all_records = run("cat", "--json", "--control", DATA / "txn-0").json
    controls = [line["control"]["type"] for line in all_records if "control" in line]
    assert set(controls) == {"COMMIT", "ABORT"}
    assert len(all_records) == len(plain) + len(controls)
    text = run("cat", "--control", DATA / "txn-0").lines
    assert sum('"type":"COMMIT"' in line for line in text) == controls.count("COMMIT")


def test_topics_and_partitions_are_chosen_by_name_and_number(run: Run) -> None:
    places = {(line["topic"], line["partition"]) for line in run("cat", "--json", DATA, "-t", "txn", "-p", 1).json}
    assert places == {("txn", 1)}
    two = run("cat", "--json", "--topic", "txn", "--topic", "codec-lz4", "--partition", 0, DATA).json
    assert {(line["topic"], line["partition"]) for line in two} == {("txn", 0), ("codec-lz4", 0)}


def test_a_partition_that_is_not_there_is_an_error_with_what_there_is(run: Run) -> None:
    result = run("cat", DATA, "-t", "ordres")
    assert result.exit_code == 2
    assert f"{DATA}: no topic ordres (there are _.dots-and_under.scores-0, " in result.err


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["-t", "txn", "-t", "nope"], "no topic nope ("),
        (["-t", "txn", "-p", 0, "-p", 1, "-p", 7], "no partition 7 ("),
        (["-t", "txn", "-t", "nope", "-p", 0, "-p", 1, "-p", 7], "no topic nope ("),
    ],
)
def test_what_is_not_there_is_reported_and_what_is_there_is_read(run: Run, arguments: list[Any], missing: str) -> None:
    result = run("cat", DATA, *arguments)
    assert result.exit_code == 2
    assert result.err.startswith(f"{DATA}: {missing}")
    assert result.err.count("\n") == 1
    assert result.out == run("cat", DATA, "-t", "txn").out != b""


def test_lengths_of_redacted_contents_are_those_of_the_contents(run: Run, records: list[dict[str, Any]]) -> None:
    result = run("cat", "--redact", "-f", r"%K %S\n", PARTITION)
    assert result.out == run("cat", "-f", r"%K %S\n", PARTITION).out
    assert [int(line.split()[1]) for line in result.lines] == [len(value(record)) for record in records]


def test_nothing_of_redacted_records_is_shown(run: Run, records: list[dict[str, Any]]) -> None:
    contents = {value(record) for record in records if len(record["value"]) > 16}
    for style in (["--json"], [], ["-f", r"%k %s %h\n"]):
        result = run("cat", "--redact", PARTITION, *style)
        assert result.exit_code == 0
        assert result.out.count(b"\n") == len(records)
        assert not any(content in result.out for content in contents)
    first = run("cat", "--redact", "--json", PARTITION).json[0]
    assert first["value"]["redacted"] == len(value(records[0]))
    assert first["offset"] == records[0]["offset"]


def test_what_is_no_text_is_base64_in_json(run: Run) -> None:
    (line,) = run("cat", "--json", "--limit", 1, DATA / "__consumer_offsets-0").json
    assert set(line["key"]) == {"base64"} or isinstance(line["key"], str)
    values = [line["value"] for line in run("cat", "--json", case("formats/v2-none-create").log).json]
    assert {type(value) for value in values} == {str, dict, type(None)}


def test_damage_is_reported_after_what_could_be_read_before_it(run: Run, tmp_path: Path) -> None:
    log = bytearray(case("formats/v2-none-create").log.read_bytes())
    log[100] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    sound = run("cat", "--json", case("formats/v2-none-create").log).json
    second = next(line["batchPosition"] for line in sound if line["batchPosition"])
    result = run("cat", "--json", path)
    assert result.exit_code == 1
    assert result.err.startswith(f"{path}, position 0: the checksum")
    assert result.err.count("\n") == 1
    assert [line["offset"] for line in result.json] == [
        line["offset"] for line in sound if line["batchPosition"] >= second
    ]
    assert run("cat", "--tail", 10**6, path).err == result.err


def test_many_paths_do_not_depend_on_each_other(run: Run, records: list[dict[str, Any]]) -> None:
    result = run("cat", "--json", "no-such-file.log", PARTITION)
    assert result.exit_code == 2
    assert "no-such-file.log: there is no such file" in result.err
    assert offsets(result.json) == offsets(records)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "%q", PARTITION], "%t topic"),
        (["-f", "%o", "--json", PARTITION], "--json, --csv and --template exclude each other"),
        (["--offset", "x", PARTITION], "is not an offset"),
        (["--from", "x", PARTITION], "is not a time"),
        (["--limit", "-1", PARTITION], "--limit"),
        (["--isolation", "none", PARTITION], "read_committed"),
        (["--bytes", "hex", PARTITION], "base64"),
        (["--bytes", "base64", PARTITION], "--json"),
        (["--offset", "700:656", PARTITION], "ends before it starts"),
        (["--from", "2026-02-01", "--until", "2026-01-01", PARTITION], "before --from 2026-02-01"),
        (["--from", "2026", PARTITION], "2026-01-01"),
        ([], "PATH"),
    ],
)
def test_a_wrong_command_line_is_reported_and_nothing_is_read(run: Run, arguments: list[Any], message: str) -> None:
    result = run("cat", *arguments)
    assert (result.exit_code, result.out) == (2, b"")
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow(reason="inflates bombs")
def test_bombs_one_after_another_stay_below_half_a_gigabyte() -> None:
    bombs = [each.log for each in cases("damaged") if each.log.parent.name.startswith("bomb-")]
    assert len(bombs) > 10
    status = Path("/proc/self/status")
    require(status.exists(), "a system that tells a process's own peak of memory; rusage has the parent's as well")
    code = "import sys; from pathlib import Path; from brokerless.cli import main; exit_code = main(sys.argv[1:]); "
    code += f"lines = Path('{status}').read_text().splitlines(); "
    code += "print(*[line for line in lines if 'VmHWM' in line], file=sys.stderr); sys.exit(exit_code)"
    command = [sys.executable, "-c", code, "cat", "--json", *map(str, bombs)]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    *told, peak = result.stderr.decode().splitlines()
    assert result.returncode == 1
    assert len(told) > 5
    assert int(peak.split()[1]) < 512 << 10  # KiB


def test_limit_and_tail_both_count_records_of_each_partition(run: Run) -> None:
    whole: dict[tuple[str, int], list[int]] = {}
    for line in run("cat", "--json", DATA).json:
        whole.setdefault((line["topic"], line["partition"]), []).append(line["offset"])
    assert sum(len(of_partition) > 3 for of_partition in whole.values()) > 3
    for option, part in (("-n", slice(3)), ("--tail", slice(-3, None))):
        found: dict[tuple[str, int], list[int]] = {}
        for line in run("cat", "--json", option, 3, DATA).json:
            found.setdefault((line["topic"], line["partition"]), []).append(line["offset"])
        assert found == {name: of_partition[part] for name, of_partition in whole.items()}


FILTERS: list[tuple[tuple[str, ...], str]] = [
    (("--key", "o-101230"), "o-101230"),
    (("--key-regex", "^o-1012"), "o-1012"),
    (("--grep", "Kettle"), "Kettle"),
    (("--header", "source=app"), '["source","app"]'),
    (("--where", "value_json->>'country' = 'SE'"), '\\"country\\":\\"SE\\"'),
]


@pytest.mark.parametrize(("options", "text"), FILTERS, ids=[options[0] for options, _ in FILTERS])
def test_filters_select_records(run: Run, options: tuple[str, ...], text: str) -> None:
    everything = run("cat", DEMO, "--json").lines
    expected = [line for line in everything if text in line and (options[0] != "--key" or f'"key":"{text}"' in line)]
    assert 0 < len(expected) < len(everything)
    result = run("cat", DEMO, "--json", *options)
    assert (result.lines, result.exit_code) == (expected, 0)


def test_filters_look_in_all_partitions_side_by_side(run: Run) -> None:
    alone = run("cat", DEMO, "--json", "--grep", "9", "--jobs", 1).lines
    beside = run("cat", DEMO, "--json", "--grep", "9", "--jobs", 3).lines
    assert sorted(beside) == sorted(alone)
    for number in range(3):
        orders = f'"topic":"orders","partition":{number},'
        assert [line for line in beside if orders in line] == [line for line in alone if orders in line]


def test_the_limit_and_the_tail_count_what_was_found(run: Run) -> None:
    found = [line for line in run("cat", DEMO, "-t", "orders", "-p", 0, "--grep", "paid").lines if line]
    assert len(found) > 5
    assert run("cat", DEMO, "-t", "orders", "-p", 0, "--grep", "paid", "-n", 2).lines == found[:2]
    assert run("cat", DEMO, "-t", "orders", "-p", 0, "--grep", "paid", "--tail", 2).lines == found[-2:]


def test_nothing_found_is_said_and_is_no_error(run: Run) -> None:
    result = run("cat", DEMO, "--key", "nobody")
    assert (result.lines, result.exit_code) == ([], 0)
    assert "no record was found" in result.err
    assert run("cat", "demo/data", "-t", "nosuch", "--key", "a").err.count("\n") == 1


@pytest.mark.parametrize("options", [("--offset", "99999"), ("--offset", "3:20"), ("--from", "2040-01-01")])
def test_a_range_without_a_record_is_said_and_is_no_error(run: Run, options: tuple[str, str]) -> None:
    result = run("cat", DEMO, "-t", "users", *options)
    assert (result.lines, result.exit_code) == ([], 0)
    assert "no record was found in this range; brokerless ls shows" in result.err


@pytest.mark.parametrize(
    "options", [("--grep", ""), ("--key-regex", "("), ("--header", "nothing"), ("--where", "no such"), ("--jobs", "0")]
)
def test_filters_that_mean_nothing_are_refused(run: Run, options: tuple[str, ...]) -> None:
    assert run("cat", DEMO, *options).exit_code == 2


@pytest.mark.parametrize(
    "options",
    [[], ["--json"], ["-f", r"%t-%p %o %k %s %h\n"], ["--json", "--control"], ["--json", "-n", "100"], ["--tail", "9"]],
    ids=" ".join,
)
def test_threads_print_what_one_prints(run: Run, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerless.log.partition.THREADS_FROM", 0)
    monkeypatch.setattr("brokerless.interchange.jsonl_writer._CAPACITY", 4096)  # so that a batch has many blocks
    one = run("cat", PARTITION, *options, "--jobs", 1)
    assert one.out.count(b"\n") > 8
    assert run("cat", PARTITION, *options, "--jobs", 3) == one


def test_csv_has_a_header_and_the_same_records_as_json(run: Run, tmp_path: Path) -> None:
    """Read by Python's csv; a file of -o has the same."""
    line = ("cat", "demo/data", "-t", "orders", "-t", "payments", "--limit", 5)
    found = list(csv.DictReader(io.StringIO(run(*line, "--csv").out.decode())))
    expected = run(*line, "--json").json
    assert [(row["topic"], int(row["partition"]), int(row["offset"])) for row in found] == [
        (row["topic"], row["partition"], row["offset"]) for row in expected
    ]
    assert [row["value"] for row in found] == [row["value"] for row in expected]
    assert [json.loads(row["headers"] or "[]") for row in found] == [row["headers"] for row in expected]
    times = [datetime.fromisoformat(row["timestamp"]).timestamp() * 1000 for row in found]
    assert [round(each) for each in times] == [row["timestamp"] for row in expected]
    target = tmp_path / "orders.csv"
    assert run(*line, "-o", target).out == b""
    assert target.read_bytes() == run(*line, "--csv").out == run(*line, "-o", "csv").out
    assert run(*line, "-o", tmp_path / "orders.jsonl").exit_code == 0
    assert [json.loads(each) for each in (tmp_path / "orders.jsonl").read_text().splitlines()] == expected


def test_no_file_is_left_where_nothing_can_be_read(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "orders.csv"
    target.write_text("before")
    assert run("cat", "nowhere", "-o", target).exit_code == 2
    assert target.read_text() == "before"
    assert run("cat", "demo/data", "-o", "42").exit_code == 2


def test_times_are_typed_and_shown_in_a_zone(run: Run) -> None:
    line = ("cat", "demo/data", "-t", "orders", "--key", "o-100348")
    (row, _) = run(*line, "--from", "2026-11-20 13:00", "--until", "2026-11-20 13:15", "--timezone", "+01:00").lines
    assert row.split("\t")[2] == "2026-11-20T13:08:12.001+01:00"
