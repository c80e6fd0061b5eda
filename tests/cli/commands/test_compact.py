from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_compacted_topics_are_found_by_the_cluster_s_metadata_and_others_are_copied(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "to"
    result = run("compact", DEMO, "--to", to, "--json")
    assert result.exit_code == 0
    lines = {f"{line['topic']}-{line['partition']}": line for line in result.json}
    cleaned = {name for name, line in lines.items() if not line["isCopied"]}
    assert cleaned == {"users-0", "__consumer_offsets-0", "__transaction_state-0"}
    for name in lines.keys() - cleaned:
        for path in (DEMO / name).glob("*.log"):
            assert (to / name / path.name).read_bytes() == path.read_bytes()
    users = lines["users-0"]
    assert users["recordsIn"] - users["recordsOut"] == users["removed"]["superseded"] + users["removed"]["tombstones"]
    assert users["sizeInBytes"] == sum(path.stat().st_size for path in (to / "users-0").glob("*.log"))
    assert users["cleanOffset"] == users["endOffset"]
    assert f"users 0 {users['endOffset']}" in (to / "cleaner-offset-checkpoint").read_text().splitlines()
    assert (to / "meta.properties").read_bytes() == (DEMO / "meta.properties").read_bytes()
    audited = run("audit", to, "--json")
    assert [line for line in audited.json if line.get("severity") in ("warning", "error")] == []


def test_settings_are_those_of_any_log_directory_that_is_given(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    shutil.copytree(DEMO, one, ignore=shutil.ignore_patterns("users-0", "orders-1"))
    for name in ("users-0", "orders-1"):
        shutil.copytree(DEMO / name, other / name)
    lines = run("compact", one, other, "--to", tmp_path / "to", "--json").json
    copied = {line["topic"]: line["isCopied"] for line in lines}
    assert (copied["users"], copied["orders"]) == (False, True)
    alone = run("compact", other, "--what-if", "--json")
    assert (alone.json, alone.exit_code) == ([], 0)
    assert alone.err.count("settings are not known") == 2
    assert "users-0" in alone.err
    (users,) = run("compact", other, "-t", "users", "--dry-run", "--json").json
    assert users["recordsOut"] < users["recordsIn"]


def test_what_if_writes_nothing_and_shows_keys_and_tombstones(run: Run, tmp_path: Path) -> None:
    source = Path(shutil.copytree(DEMO / "users-0", tmp_path / "users-0"))
    dry = run("compact", source, "--dry-run", "--from-start", "--now", "2026-10-30")
    assert dry.lines[-1].endswith("nothing was written, as in a dry run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["users-0"]
    assert any(line.startswith("partition  tombstones left") for line in dry.lines)
    wet = run("compact", source, "--to", tmp_path / "to", "--from-start", "--now", "2026-10-30", "--json").json[0]
    (counted,) = run("compact", source, "--what-if", "--from-start", "--now", "2026-10-30", "--json").json
    left_out = ("target", "frequentKeys")
    assert {k: v for k, v in counted.items() if k not in left_out} == {k: v for k, v in wet.items() if k != "target"}
    assert counted["target"] is None
    frequent = counted["frequentKeys"]
    assert [each["records"] for each in frequent] == sorted((each["records"] for each in frequent), reverse=True)


def test_a_damaged_partition_is_not_written(run: Run, tmp_path: Path) -> None:
    source = Path(shutil.copytree(DEMO / "users-0", tmp_path / "users-0"))
    log = sorted(source.glob("*.log"), key=lambda path: path.stat().st_size)[-1]
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    result = run("compact", source, "--to", tmp_path / "to")
    assert result.exit_code == 1
    assert "users-0 was not written, as it is damaged" in result.err
    assert not (tmp_path / "to" / "users-0").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nowhere to write to; use --to DIRECTORY, or --dry-run"),
        (["-t", "__cluster_metadata", "--to", "TO"], "__cluster_metadata is KRaft's own log"),
        (["--to", "TO", "--now", "soon"], "'soon' is not a time"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run("compact", DEMO, *(str(tmp_path / "to") if each == "TO" else each for each in arguments))
    assert result.exit_code == 2
    assert message in result.err
    assert not (tmp_path / "to").exists()


def test_several_log_directories_get_one_of_their_own_name_each(run: Run, tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        shutil.copytree(DEMO, tmp_path / name, ignore=shutil.ignore_patterns("orders-*"))
    shutil.copytree(DEMO / "orders-1", tmp_path / "b2" / "orders-1")
    result = run("compact", tmp_path / "b1", tmp_path / "b2", "--to", tmp_path / "to", "--json")
    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["b1", "b2"]
    for name, orders in (("b1", []), ("b2", ["orders-1"])):
        there = {path.name for path in (tmp_path / "to" / name).iterdir() if path.is_dir()}
        assert there == {path.name for path in (tmp_path / name).iterdir() if path.is_dir()}
        assert [each for each in there if each.startswith("orders")] == orders
        properties = (tmp_path / "to" / name / "meta.properties").read_bytes()
        assert properties == (DEMO / "meta.properties").read_bytes()
        assert run("verify", tmp_path / "to" / name).exit_code == 0


def test_an_open_transaction_that_holds_compaction_back_is_named(run: Run) -> None:
    """The golden one ends with three records that nobody committed."""
    arguments = ("compact", broker_data("clean") / "txn-0", "--what-if")
    assert any(
        line.startswith("txn-0: the transaction of producer 1013 is open since offset 460;")
        for line in run(*arguments).lines
    )
    (line,) = run(*arguments, "--json").json
    assert line["openTransaction"] == {"producerId": 1013, "firstOffset": 460}
    assert line["cleanOffset"] <= 460


def test_a_key_cannot_write_to_the_terminal(run: Run, tmp_path: Path) -> None:
    rows = '{"key":"\\u001b[31mred","value":"a"}\n' * 2
    (tmp_path / "rows.jsonl").write_text(rows)
    assert run("load", tmp_path / "rows.jsonl", "--to", tmp_path / "log", "-t", "a", "--partitions", 1).exit_code == 0
    result = run("compact", tmp_path / "log", "-t", "a", "--dry-run")
    assert "\\x1b[31mred" in result.out.decode()
    assert b"\x1b" not in result.out
