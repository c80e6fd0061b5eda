"""``brokerless diff``: exit codes, what is shown of differences, JSON, and which partitions are compared."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.conftest import Run
from tests.jobs.diff.planted import PLANTS, ModelBatch, ModelRecord, changed, missing, random_log, write

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.run import job

DEMO = Path(__file__).parents[3] / "demo"
REPLICAS = DEMO / "replicas"


def two_logs(tmp_path: Path, name: str) -> tuple[Path, Path]:
    chance = random.Random(name)
    planted = PLANTS[name](chance, random_log(chance))
    return write(tmp_path / "left", planted.left, chance), write(tmp_path / "right", planted.right, chance)


def test_a_copy_is_the_same(run: Run) -> None:
    result = run("diff", DEMO / "data", DEMO / "data")
    assert (result.exit_code, result.err) == (0, "")
    assert result.out.decode().splitlines()[-2:] == ["5 partitions: the same", "1 group: the same"]


def test_differences_are_lines_with_place_cause_and_time(run: Run) -> None:
    result = run("diff", REPLICAS / "broker-2", REPLICAS / "broker-3")
    assert result.exit_code == 1
    assert "orders-0, offsets 220 to 269 (50 records): changed (2025-11-21T04:46:10.000Z)" in result.out.decode()
    assert "orders-0, offsets 270 to 299 (30 records): after the end of the right side" in result.out.decode()
    assert result.out.decode().splitlines()[-1] == "1 of 1 partition differs"


def test_json_has_a_line_for_each_partition(run: Run) -> None:
    result = run("diff", REPLICAS / "broker-2", REPLICAS / "broker-3", "--json")
    assert result.exit_code == 1
    (line,) = result.json
    assert line["topic"], line["partition"] == ("orders", 0)
    assert line["left"] == {"path": f"{REPLICAS}/broker-2/orders-0", "startOffset": 0, "endOffset": 300}
    assert line["causes"] == {"changed": 50, "lagging": 30}
    assert (line["records"], line["same"], line["missing"], line["extra"], line["changed"]) == (300, 220, 30, 0, 50)
    assert [each["cause"] for each in line["differences"]] == ["changed", "lagging"]
    assert (line["isSame"], line["problem"], line["uncompared"], line["notListed"]) == (False, None, [], 0)


def test_parts_are_compared_alone(run: Run) -> None:
    data = DEMO / "data"
    assert [each["kind"] for each in run("diff", data, data, "--json").json] == ["partition"] * 5 + ["group"]
    assert [each["kind"] for each in run("diff", data, data, "--json", "--only", "groups").json] == ["group"]
    result = run("diff", data, data, "--only", "settings,acls")
    assert (result.exit_code, result.out) == (0, b"the same\n")
    lacking = run("diff", data / "orders-0", data / "orders-0", "--only", "users")
    assert (lacking.exit_code, lacking.out, lacking.err.splitlines()[-1]) == (2, b"", "nothing was compared")
    assert run("diff", data, data, "--only", "offsets").exit_code == 2


def test_what_is_allowed_is_no_difference(run: Run) -> None:
    paths = REPLICAS / "broker-2", REPLICAS / "broker-3"
    assert run("diff", *paths, "--allow", "lagging").exit_code == 1
    result = run("diff", *paths, "--allow", "lagging,changed", "--json")
    assert result.exit_code == 0
    (line,) = result.json
    assert (line["isSame"], line["causes"], line["differences"]) == (True, {"changed": 50, "lagging": 30}, [])
    shown = run("diff", *paths, "--allow", "lagging,changed").out.decode()
    assert shown.splitlines()[1].split()[1:] == ["300", "220", "0", "0", "0", "changed", "50,", "lagging", "30"]


def test_an_unknown_cause_is_a_mistake(run: Run) -> None:
    result = run("diff", DEMO / "data", DEMO / "data", "--allow", "lag")
    assert result.exit_code == 2
    assert "there is no cause 'lag'; there are retention, compaction" in result.err
    with pytest.raises(UsageError, match="there is no cause 'lag'"):
        brokerless.diff(DEMO / "data", DEMO / "data", allow=["lag"])


def test_keys_are_hidden_unless_they_are_asked_for(run: Run, tmp_path: Path) -> None:
    batch = ModelBatch((ModelRecord(0, 1_700_000_000_000, b"frida@example.org", b"1"),))
    other = ModelBatch((ModelRecord(0, 1_700_000_000_000, b"frida@example.org", b"2"),))
    chance = random.Random(1)
    left, right = write(tmp_path / "left", [batch], chance), write(tmp_path / "right", [other], chance)
    for options in ((), ("--json",)):
        result = run("diff", left, right, *options)
        assert result.exit_code == 1
        assert "frida" not in result.out.decode() + result.err
        assert "frida@example.org" in run("diff", left, right, *options, "--show-keys").out.decode()
    found = brokerless.diff(left, right)
    assert found.differences()["key"].to_pylist() == [None]
    assert "frida" not in repr(found) + "".join(found.lines())
    assert brokerless.diff(left, right, show_keys=True).differences()["key"].to_pylist() == [b"frida@example.org"]


def test_headers_are_told_by_their_names(run: Run, tmp_path: Path) -> None:
    left, right = two_logs(tmp_path, "headers")
    (line,) = [each for each in run("diff", left, right).out.decode().splitlines() if each.startswith("topic-0, ")]
    assert "other values of headers (trace, empty) (" in line


def test_a_header_with_another_value_is_not_told_as_another_header(run: Run, tmp_path: Path) -> None:
    chance = random.Random(1)
    left, right = (
        write(tmp_path / value, [ModelBatch((ModelRecord(0, 1, b"k", b"v", (("trace", value.encode()),)),))], chance)
        for value in ("1", "2")
    )
    assert "other values of headers (trace) (" in run("diff", left, right).out.decode()


def test_other_headers_and_timestamps_are_no_other_value(run: Run, tmp_path: Path) -> None:
    chance = random.Random(1)
    record, other = ModelRecord(0, 1, b"k", b"v", (("trace", b"1"),)), ModelRecord(0, 2, b"k", b"v")
    left, right = (
        write(tmp_path / name, [ModelBatch((each,))], chance) for name, each in (("a", record), ("b", other))
    )
    for allowed, cause, exit_code in (
        ("lagging", "headers", 1),
        ("headers", "timestamps", 1),
        ("timestamps", "headers", 1),
        ("headers,timestamps", "headers", 0),
    ):
        result = run("diff", left, right, "--allow", allowed, "--json")
        assert (result.exit_code, result.json[0]["causes"]) == (exit_code, {cause: 1})


def test_only_so_many_differences_are_listed_and_all_are_counted(run: Run, tmp_path: Path) -> None:
    log = random_log(random.Random(4), batches=90)
    every_third = [each for number, each in enumerate(log) if number % 3]
    chance = random.Random(2)
    left, right = write(tmp_path / "left", log, chance), write(tmp_path / "right", every_third, chance)
    everything = run("diff", left, right, "--limit", "1000", "--json").json[0]
    few = run("diff", left, right, "--limit", "4", "--json").json[0]
    assert few["differences"] == everything["differences"][:4]
    assert few["notListed"] == len(everything["differences"]) - 4
    assert everything["notListed"] == 0
    assert few["missing"] == everything["missing"] == sum(len(each.records) for each in log[3::3])
    assert "more differences" in run("diff", left, right, "--limit", "4").out.decode()
    assert run("diff", left, right, "--limit", "0", "--json").json[0]["differences"] == []


def test_a_topic_that_was_made_again_is_another_topic(run: Run, tmp_path: Path) -> None:
    left, right = two_logs(tmp_path, "nothing")
    for side, topic_id in ((left, "AAAAAAAAAAAAAAAAAAAAAQ"), (right, "AAAAAAAAAAAAAAAAAAAAAg")):
        (side / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    result = run("diff", left, right)
    assert result.exit_code == 1
    assert "topic-0: another topic" in result.out.decode()
    assert "allow another-topic to compare it all the same" in result.out.decode()
    assert run("diff", left, right, "--json").json[0]["problem"] == "another-topic"
    assert run("diff", left, right, "--allow", "another-topic").exit_code == 0


def test_logs_without_a_common_offset_are_one_sentence(run: Run, tmp_path: Path) -> None:
    log = random_log(random.Random(7))
    chance = random.Random(1)
    left, right = write(tmp_path / "left", log[:10], chance), write(tmp_path / "right", log[20:], chance)
    result = run("diff", left, right)
    first, last = log[20].first, log[-1].records[-1].offset
    assert result.exit_code == 1
    assert (
        f"topic-0: no offset in common: offsets {log[0].first} to {log[9].records[-1].offset} on the left, "
        in result.out.decode()
    )
    assert f"offsets {first} to {last} on the right" in result.out.decode()
    assert run("diff", left, right, "--json").json[0]["problem"] == "no-common-offset"


@pytest.mark.parametrize(("first", "what"), [(0, "extra"), (1 << 40, "missing")])
def test_a_side_without_records_has_no_common_offset_to_lack(first: int, what: str, run: Run, tmp_path: Path) -> None:
    """A new topic begins at offset 0; one whose records were all deleted, after them."""
    log = random_log(random.Random(7))[5:]
    count = sum(len(each.records) for each in log)
    full, empty = write(tmp_path / "full", log, random.Random(1)), tmp_path / "empty" / "topic-0"
    empty.mkdir(parents=True)
    (empty / f"{first:020}.log").touch()
    (line,) = run("diff", empty, full, "--json").json
    cause = "lagging" if what == "extra" else "retention"
    assert (line["problem"], line["causes"]) == (None, {cause: count})
    assert line["isSame"] == (cause == "retention")
    (line,) = run("diff", full, empty, "--json").json
    assert (line["problem"], line["causes"]) == (None, {cause: count})
    assert run("diff", empty, empty).exit_code == 0


def test_a_lone_file_is_no_partition_of_a_directory(run: Run, tmp_path: Path) -> None:
    (segment, *_) = sorted((DEMO / "data" / "orders-1").glob("*.log"))
    for sides in ((segment, DEMO / "data"), (DEMO / "data", segment)):
        result = run("diff", *sides)
        assert (result.exit_code, result.out) == (2, b"")
        assert f"{segment}: nothing says which partition this is; compare it with one partition" in result.err


def test_archives_are_sides(run: Run, tmp_path: Path) -> None:
    tar, archive = (shutil.make_archive(str(tmp_path / "copy"), kind, DEMO / "data") for kind in ("tar", "zip"))
    result = run("diff", f"zip://::{archive}", f"tar://.::{tar}", "--jobs", "2")
    assert (result.exit_code, result.err) == (0, "")
    assert result.out.decode().splitlines()[-2:] == ["5 partitions: the same", "1 group: the same"]
    assert run("diff", f"zip://orders-1::{archive}", DEMO / "data").exit_code == 0
    two = run("diff", f"zip://orders-1::{archive}", DEMO / "data", "--left", f"zip://orders-2::{archive}", "--json")
    assert [each["isSame"] for each in two.json if each["kind"] == "partition"] == [True, True]
    shown = run("diff", archive, DEMO / "data")
    assert (shown.exit_code, shown.out) == (2, b"")
    assert "this is a zip archive; a log in it is zip://NAME::" in shown.err
    assert "no archive is named; its file follows ::" in run("diff", f"zip://{archive}", DEMO / "data").err


def test_positions_in_other_partitions_are_not_compared(run: Run) -> None:
    data = DEMO / "data"
    assert [each["positions"] for each in run("diff", data, data, "--json", "--only", "groups").json] == [1]
    assert [each["kind"] for each in run("diff", data, data, "--json", "-p", "2").json] == ["partition", "group"]
    assert [each["kind"] for each in run("diff", data, data, "--json", "-p", "1").json] == ["partition"]


def test_a_partition_of_one_side_is_a_difference(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(DEMO / "data", copy)
    shutil.rmtree(copy / "users-0")
    result = run("diff", DEMO / "data", copy)
    assert result.exit_code == 1
    assert "users-0: this partition is on the left only" in result.out.decode()
    assert run("diff", DEMO / "data", copy, "-t", "orders").exit_code == 0
    assert "on the right only" in run("diff", copy, DEMO / "data").out.decode()


def test_kafkas_own_topics_are_compared_where_they_are_named(run: Run) -> None:
    lines = run("diff", DEMO / "data", DEMO / "data", "-t", "__*", "--json").json
    assert [each["topic"] for each in lines] == ["__cluster_metadata", "__consumer_offsets", "__transaction_state"]
    assert all(each["isSame"] and each["causes"] == {} for each in lines)
    own = DEMO / "data" / "__consumer_offsets-0"
    assert run("diff", own, own, "--json").json[0]["isSame"]


def test_a_partition_is_compared_with_that_of_its_name(run: Run) -> None:
    (line,) = run("diff", DEMO / "data" / "orders-1", DEMO / "data", "--json").json
    assert (line["topic"], line["partition"], line["isSame"]) == ("orders", 1, True)
    (segment, *_) = sorted((DEMO / "data" / "orders-1").glob("*.log"))
    (line,) = run("diff", segment, DEMO / "data" / "orders-1", "--json", "--allow", "lagging").json
    assert line["isSame"]


def test_of_several_disks_the_replica_that_counts_is_compared(run: Run, tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    disks = [REPLICAS / f"broker-{number}" for number in (1, 2, 3)]
    brokerless.merge(disks, merged)
    result = run("diff", disks[0], merged, "--left", *disks[1:], "--json")
    assert result.exit_code == 0
    (line,) = result.json
    assert line["left"]["path"] == f"{disks[2]}/orders-0"
    assert run("diff", merged, disks[0], "--right", disks[2]).exit_code == 0
    assert brokerless.diff(disks, merged).is_same


def test_a_side_that_is_not_there_is_no_difference(run: Run, tmp_path: Path) -> None:
    result = run("diff", DEMO / "data", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.err
    assert "nothing was compared" in result.err
    assert run("diff", DEMO / "data").exit_code == 2
    assert run("diff", DEMO / "data", DEMO / "data", "-t", "ordres").exit_code == 2


def test_damage_is_named_with_its_side(run: Run, tmp_path: Path) -> None:
    left, right = two_logs(tmp_path, "nothing")
    path = sorted(right.glob("*.log"))[-1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = run("diff", left, right)
    assert result.exit_code == 1
    assert "could not be compared (" in result.out.decode()
    assert "checksum-mismatch on the right" in result.out.decode()
    assert str(path) in result.err
    (uncompared,) = run("diff", left, right, "--json").json[0]["uncompared"]
    assert (uncompared["side"], uncompared["finding"]["kind"]) == ("right", "checksum-mismatch")


@pytest.mark.parametrize("plant", [changed, missing])
def test_a_failed_assertion_prints_what_diff_prints(plant: object, run: Run, tmp_path: Path) -> None:
    left, right = two_logs(tmp_path, plant.__name__)  # type: ignore[attr-defined]
    brokerless.assert_same_log(left, left)
    with pytest.raises(AssertionError) as error:
        brokerless.assert_same_log(left, right)
    lines = [
        each for each in run("diff", left, right, "--wide").out.decode().splitlines() if each.startswith("topic-0, ")
    ]
    assert str(error.value).splitlines()[1:] == lines
    assert lines
    brokerless.assert_same_log(left, right, allow=[plant.__name__])  # type: ignore[attr-defined]


def test_differences_are_a_table(tmp_path: Path) -> None:
    found = brokerless.diff(REPLICAS / "broker-2", REPLICAS / "broker-3")
    rows = found.differences().select(["topic", "partition", "what", "cause", "firstOffset", "records"]).to_pylist()
    assert rows == [
        {"topic": "orders", "partition": 0, "what": "changed", "cause": "changed", "firstOffset": 220, "records": 50},
        {"topic": "orders", "partition": 0, "what": "missing", "cause": "lagging", "firstOffset": 270, "records": 30},
    ]
    assert brokerless.diff(DEMO / "data", DEMO / "data").differences().num_rows == 0


def test_loaded_records_are_those_of_the_file(run: Run, tmp_path: Path) -> None:
    lines = tmp_path / "orders.jsonl"
    lines.write_bytes(run("cat", DEMO / "data" / "orders-1", "--json", "--bytes", "base64").out)
    loading = ("load", lines, "--bytes", "base64", "--to", tmp_path / "to", "--topic", "orders", "--partitions", "3")
    assert run(*loading).exit_code == 0
    brokerless.assert_same_log(DEMO / "data" / "orders-1", tmp_path / "to" / "orders-1", allow=["another-topic"])


def test_a_decoded_table_is_a_side(run: Run, tmp_path: Path) -> None:
    assert run("export", DEMO / "data", "-t", "users", "--to", tmp_path, "--as", "delta", "--decode").exit_code == 0
    result = run("diff", DEMO / "data", tmp_path, "-t", "users")
    assert (result.exit_code, "partition: the same" in result.out.decode()) == (0, True)
    result = run("diff", DEMO / "data", tmp_path, "-t", "users", "--value-format", "longer")
    assert (result.exit_code, "'longer' is none of" in result.err) == (2, True)


def test_an_archive_and_a_bucket_are_sides(run: Run, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "data"), "zip", DEMO / "data")
    result = run("diff", DEMO / "data", f"zip://::{archive}", "-t", "orders")
    assert result.out.decode().splitlines()[-2] == "3 partitions: the same"
    bucket = run("diff", DEMO / "bucket", DEMO / "bucket", "--json")
    assert [each["isSame"] for each in bucket.json] == [True] * 4
    assert sum(each["same"] for each in bucket.json) > 0


def test_processes_find_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("diff", DEMO / "data", DEMO / "data", "--json")
    alone = run(*command)
    monkeypatch.setattr(job, "SOME_BYTES", 0)
    monkeypatch.setattr(job, "processors", lambda: 2)
    assert run(*command) == alone


def test_metrics_are_written_for_a_timer(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "diff.prom"
    paths = REPLICAS / "broker-2", REPLICAS / "broker-3"
    assert run("diff", *paths, "--metrics", file).exit_code == 1
    families = {each.name: each.samples for each in text_string_to_metric_families(file.read_text())}
    records = {each.labels["result"]: each.value for each in families["brokerless_diff_records"]}
    assert records == {"same": 220, "missing": 30, "extra": 0, "changed": 50}
    causes = {each.labels["cause"]: each.value for each in families["brokerless_diff_causes"]}
    assert causes == {"changed": 50, "lagging": 30}
    assert [each.value for each in families["brokerless_diff_differs"]] == [1]
    assert [each.value for each in families["brokerless_diff_exit_code"]] == [1]
    assert run("diff", "--replicas", REPLICAS / "broker-1", paths[1], "--metrics", file).exit_code == 0
    assert "brokerless_diff_exit_code 0\n" in file.read_text()
    assert run("diff", *paths, "--metrics", tmp_path).exit_code == 2


def test_schemas_that_are_not_there_are_refused_before_any_record_needs_them(run: Run, tmp_path: Path) -> None:
    for option in ("--schemas", "--right-schemas"):
        result = run("diff", DEMO / "data", DEMO / "data", option, tmp_path / "nowhere")
        assert (result.exit_code, result.out) == (2, b"")
        assert f"{tmp_path / 'nowhere'}: there is no such file" in result.err
    (tmp_path / "orders-value.avsc").write_text('"string"')
    assert run("diff", DEMO / "data", DEMO / "data", "--schemas", tmp_path).exit_code == 0
    result = run("diff", DEMO / "data", DEMO / "data", "--right-schemas", tmp_path)
    assert result.exit_code == 2
    assert "the left side has no topic _schemas" in result.err
    with pytest.raises(brokerless.UnreadableError, match="nowhere: there is no such file"):
        brokerless.diff(DEMO / "data", DEMO / "data", schemas=tmp_path / "nowhere")


@pytest.mark.parametrize("more", [(), ("--align", "key")])
@pytest.mark.parametrize("option", ["--key-format", "--value-format"])
def test_formats_are_refused_where_no_side_is_a_decoded_table(run: Run, option: str, more: tuple[str, ...]) -> None:
    result = run("diff", DEMO / "data", DEMO / "data", option, "string", *more)
    assert (result.exit_code, result.out) == (2, b"")
    assert "compared with a decoded table, and none are here" in result.err
