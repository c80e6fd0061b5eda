from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, broker_expected
from tests.internals.dumps import dumped_records
from tests.internals.written import batch, committed, write_partition

import brokerless
from brokerless.cli.commands.internals import TABLES
from brokerless.internals.connect.topics import TABLES as CONNECT
from brokerless.internals.schemas import STATE

CLEAN = broker_data("clean")
DUMPS = sorted(broker_expected("clean").glob("*/*.log.dump.txt"))


def test_the_tables_are_those_that_there_are() -> None:
    assert tuple(STATE) == TABLES


def test_the_state_of_all_internal_topics_is_shown_table_by_table(run: Run) -> None:
    result = run("internals", CLEAN)
    assert result.exit_code == 0
    assert result.err == ""
    shown = [line.removesuffix(":") for line in result.lines if line and not line.startswith(" ")]
    empty = ("quotas", "acls", "users", "tokens", "remoteSegments", *CONNECT)
    assert shown == [name for name in TABLES if name not in empty], "empty tables are left out"
    (line,) = [line for line in result.lines if "tx-open" in line]
    assert line.split() == ["tx-open", "Ongoing", "1013", "0", "2026-11-21T03:38:09Z", "txn:0,1"]


def test_a_table_that_is_asked_for_is_shown_though_it_is_empty(run: Run) -> None:
    result = run("internals", CLEAN, "--table", "acls", "--table", "features")
    assert [line for line in result.lines if not line.startswith(" ")] == ["features:", "", "acls:"]


def test_that_no_transaction_is_open_is_said(run: Run) -> None:
    result = run("internals", "demo/data", "-t", "orders", "--table", "open-transactions")
    assert (result.lines, result.exit_code) == (["no transaction is open"], 0)


def test_open_transactions_have_their_place_age_name_and_the_command_that_ends_them(run: Run) -> None:
    result = run("internals", CLEAN, "--table", "open-transactions")
    assert result.exit_code == 0
    head, *rows = (line.split() for line in result.lines[1:] if line.startswith("  txn-"))
    assert "tx-open" in head + rows[0]
    rows = run("internals", CLEAN, "--table", "openTransactions", "--json").json
    assert {row["table"] for row in rows} == {"openTransactions"}
    assert {(row["topic"], row["partition"], row["producerId"]) for row in rows} == {("txn", 0, 1013), ("txn", 1, 1013)}
    expected = brokerless.open(CLEAN).transactions().to_pylist()
    assert {(row["partition"], row["firstOffset"]) for row in rows} == {
        (each["partition"], each["firstOffset"]) for each in expected if each["state"] == "open"
    }
    for row in rows:
        place = f"--topic txn --partition {row['partition']} --start-offset {row['firstOffset']}"
        assert row["abortCommand"].endswith(f" abort {place}")
        assert any(line.strip() == row["abortCommand"] for line in result.lines)
        assert (row["transactionalId"], row["transactionState"]) == ("tx-open", "Ongoing")


def test_open_transactions_of_a_topic_have_their_names_all_the_same(run: Run) -> None:
    (row,) = run("internals", CLEAN, "-t", "txn", "-p", "1", "--table", "openTransactions", "--json").json
    assert (row["partition"], row["transactionalId"]) == (1, "tx-open")
    assert run("internals", CLEAN / "txn-1", "--table", "openTransactions", "--json").json[0]["transactionalId"] is None
    assert run("internals", CLEAN / "segments-0", "--table", "openTransactions", "--json").json == []
    assert run("internals", CLEAN, "--table", "openTransactions", "--history").exit_code == 2


def test_rows_as_json_say_of_which_table_they_are(run: Run) -> None:
    rows = run("internals", "--json", CLEAN).json
    by_table = {name: [row for row in rows if row["table"] == name] for name in TABLES}
    assert {name: len(each) for name, each in by_table.items() if name in ("offsets", "topics", "partitions")} == {
        "offsets": 13, "topics": 24, "partitions": 45,
    }  # fmt: skip
    assert all(["table", *STATE[row["table"]].names] == list(row) for row in rows)
    assert by_table["offsets"][0]["commitTimestamp"] == 1795232264880


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.parent.name)
def test_history_has_every_record_with_the_json_of_kafkas_dump_tool(run: Run, dump: Path) -> None:
    result = run("internals", CLEAN / dump.parent.name, "--history", "--json")
    assert result.exit_code == 0
    assert {row["offset"]: (row["key"], row["payload"]) for row in result.json} == dumped_records(dump.read_text())


def test_the_history_of_a_table_has_the_records_of_its_topics(run: Run) -> None:
    own = {dump.parent.name: dumped_records(dump.read_text()) for dump in DUMPS}
    wanted = {name: each for name, each in own.items() if name.startswith("__consumer_offsets")}
    found: dict[str, dict[int, Any]] = {}
    for row in run("internals", CLEAN, "--history", "--table", "groups", "--json").json:
        found.setdefault(f"{row['topic']}-{row['partition']}", {})[row["offset"]] = (row["key"], row["payload"])
    assert found.items() >= wanted.items()
    assert len(wanted) > 1
    assert {name.rpartition("-")[0] for name in found} == {"__consumer_offsets"}
    assert run("internals", CLEAN, "--history", "--table", "connectOffsets").lines == []


def test_the_history_of_a_topic_whose_table_is_named(run: Run, tmp_path: Path) -> None:
    """As in Python ``history(topics=)``: of Connect's offsets in a topic of another name."""
    (tmp_path / "rows").write_text('{"key":"[\\"files\\",{\\"file\\":\\"a.txt\\"}]","value":"{\\"position\\":12}"}\n')
    assert run("load", tmp_path / "rows", "--to", tmp_path / "log", "--topic", "mine").exit_code == 0
    (row,) = run("internals", tmp_path / "log", "-t", "mine", "--history", "--table", "connectOffsets", "--json").json
    assert row["payload"]["data"] == {"position": 12}


def test_history_for_people_is_a_line_for_each_record(run: Run) -> None:
    result = run("internals", CLEAN / "__consumer_offsets-1", "--history")
    assert len(result.lines) == 21
    assert result.lines[1].split("\t")[:4] == ["__consumer_offsets-1", "2", "2026-11-21T03:37:43.326Z", "OFFSET_COMMIT"]
    assert result.lines[1].endswith("\taborted")
    (tombstone,) = [line for line in result.lines if line.endswith("\tnull")]
    assert tombstone.split("\t")[1] == "20"


def test_what_is_not_known_is_reported_and_shown_as_bytes(run: Run, tmp_path: Path) -> None:
    log = write_partition(tmp_path, "__consumer_offsets", batch(0, [committed("g", "a", 1), (b"\x03\xe7new", b"\xff")]))
    result = run("internals", log, "--history", "--json")
    assert result.exit_code == 0, "nothing is damaged"
    place = f"{log / f'{0:020}.log'}, position 0"
    assert result.err.splitlines() == [f"{place}: a record of type 999, which is not known"]
    assert [result.json[1][name] for name in ("type", "key", "payload")] == [
        None, {"base64": "A+duZXc="}, {"base64": "/w=="},
    ]  # fmt: skip
    assert "\\xff" in run("internals", log, "--history").lines[1]
    assert run("internals", log).err == result.err


def test_damage_is_reported_and_changes_the_exit_code(run: Run, tmp_path: Path) -> None:
    damaged = bytearray(batch(1, [committed("g", "b", 1)]))
    damaged[-1] ^= 1
    log = write_partition(tmp_path, "__consumer_offsets", batch(0, [committed("g", "a", 1)]), damaged)
    for option in ("--history", "--json"):
        result = run("internals", log, option)
        assert result.exit_code == 1
        assert len(result.lines) == 1
        assert "position" in result.err


@pytest.mark.parametrize("path", ["txn-0", f"txn-0/{0:020}.log"])
def test_a_path_without_an_internal_topic_is_reported(run: Run, path: str) -> None:
    result = run("internals", CLEAN / path)
    assert (result.exit_code, result.out) == (2, b"")
    assert "there is no internal topic here" in result.err


def test_topics_of_connect_are_known_by_name_or_as_the_table_that_is_given(run: Run, tmp_path: Path) -> None:
    records = batch(0, [(b'["files",{"file":"a"}]', b'{"position":1}')])
    for topic in ("connect-offsets", "positions", "other"):
        write_partition(tmp_path, topic, records)
    assert run("internals", tmp_path).lines == [
        "connectOffsets:",
        "  internalTopic    connector  sourcePartition  sourceOffset",
        '  connect-offsets  files      {"file":"a"}     {"position":1}',
    ]
    (row,) = run("internals", tmp_path, "-t", "positions", "--table", "connectOffsets", "--json").json
    assert (row["internalTopic"], row["sourceOffset"], row["recordOffset"]) == ("positions", '{"position":1}', 0)
    refused = run("internals", tmp_path, "-t", "positions", "--table", "offsets")
    assert (refused.exit_code, refused.out) == (2, b"")
    wrong = run("internals", tmp_path, "-t", "positions", "--table", "mirrorCheckpoints", "--json")
    assert (wrong.exit_code, wrong.json) == (0, [])
    assert "a key that cannot be read" in wrong.err
    lone = run("internals", tmp_path / "connect-offsets-0" / f"{0:020}.log", "--history")
    assert lone.lines[0].endswith('\t{"connector":"files","partition":{"file":"a"}}\t{"position":1}')


def test_a_table_that_there_is_not_is_refused(run: Run) -> None:
    assert run("internals", CLEAN, "--table", "offset").exit_code == 2


def test_several_paths_are_kept_apart_and_one_that_is_not_there_does_not_hide_the_others(run: Run) -> None:
    result = run("internals", "nowhere", CLEAN / "__consumer_offsets-0", CLEAN / "__consumer_offsets-1")
    assert result.exit_code == 2
    assert [line for line in result.lines if line.endswith("0:") or line.endswith("1:")] == [
        f"{CLEAN / '__consumer_offsets-0'}:",
        f"{CLEAN / '__consumer_offsets-1'}:",
    ]
