"""Which partitions are meant by -t, -p and --exclude-internal, in every command that has them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

from brokerless.log.names import is_internal

DATA = broker_data("clean")
READING = (["ls"], ["cat"], ["batches"], ["verify"], ["audit"], ["restart"])
WRITING = (["salvage"], ["merge"], ["convert", "--codec", "gzip"], ["export"])


def listed(run: Run, *arguments: object) -> set[str]:
    return {line["topic"] for line in run("ls", "--json", *arguments).json}


def test_patterns_choose_topics(run: Run) -> None:
    topics = listed(run, DATA)
    codecs = {topic for topic in topics if topic.startswith("codec-")}
    assert len(codecs) > 2
    assert listed(run, DATA, "-t", "codec-*") == codecs
    assert listed(run, DATA, "-t", "codec-*", "-t", "t?n") == codecs | {"txn"}
    assert listed(run, DATA, "-t", "codec-[lz]*") == {topic for topic in codecs if topic[6] in "lz"}
    assert listed(run, DATA, "-t", "*") == topics


def test_internal_topics_can_be_left_out(run: Run) -> None:
    topics = listed(run, DATA)
    internal = {topic for topic in topics if is_internal(topic)}
    assert internal
    assert listed(run, DATA, "--exclude-internal") == topics - internal
    assert listed(run, DATA, "--exclude-internal", "-t", "*s*") == {each for each in topics - internal if "s" in each}
    result = run("internals", DATA, "--exclude-internal")
    assert result.exit_code == 2


def test_a_directory_above_log_directories_names_them_and_takes_them_all(run: Run, tmp_path: Path) -> None:
    for place in ("data-0/kafka-log0", "data-1/kafka-log1", "backup/a/b"):
        shutil.copytree(DATA / "segments-0", tmp_path / "var" / place / "segments-0")
    (tmp_path / "var" / "data-1" / "kafka-log1" / "meta.properties").touch()
    (tmp_path / "var" / "a" / "b" / "c" / "d" / "too-deep" / "segments-0").mkdir(parents=True)
    result = run("ls", tmp_path / "var")
    assert (result.exit_code, result.out) == (2, b"")
    places = [tmp_path / "var" / each for each in ("backup/a/b", "data-0/kafka-log0", "data-1/kafka-log1")]
    assert f"log directories below it are {', '.join(map(str, places))}: give one of them" in result.err
    for command in ("ls", "cat", "verify"):
        result = run(command, "--json", "--all-below", tmp_path / "var")
        assert (result.exit_code, result.out) == (0, run(command, "--json", *places).out)
    assert run("ls", "--all-below", DATA).out == run("ls", DATA).out
    assert run("ls", "--all-below", tmp_path / "var" / "a").exit_code == 2
    result = run("ls", tmp_path / "var" / "a")
    assert "log directories below" not in result.err


@pytest.mark.parametrize("command", [*READING, *WRITING], ids=" ".join)
def test_all_commands_know_patterns(run: Run, command: list[str], tmp_path: Path) -> None:
    def result(to: str, *arguments: object) -> tuple[int, str, str]:
        target = ["--to", tmp_path / to] if command in WRITING else []
        found = run(*command, *target, DATA, *arguments)
        return found.exit_code, found.out.decode().replace(str(tmp_path / to), ""), found.err

    assert result("pattern", "-t", "t?n", "-p", 0) == result("name", "-t", "txn", "-p", 0)
    exit_code, _, err = result("nothing", "-t", "_[_]consumer*", "--exclude-internal")
    assert exit_code == 2
    assert "no topic _[_]consumer*" in err


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["-t", "segmets"], "no topic segmets (did you mean segments"),
        (["-t", "TXN"], "no topic TXN (did you mean txn?)"),
        (["-t", "segmets*"], "no topic segmets* (did you mean segments"),
        (["-t", "quite-another-name"], "no topic quite-another-name (there are "),
        (["-t", "txn", "-p", "7"], "no partition 7 (there are 0 to "),
        (["-t", "txn", "-t", "nope!"], "no topic nope!"),
    ],
)
def test_what_is_not_there_is_answered_with_what_may_be_meant(run: Run, asked: list[str], told: str) -> None:
    result = run("ls", DATA, *asked)
    assert result.exit_code == 2
    assert f"{DATA}: {told}" in result.err


def test_of_several_topics_those_that_are_there_are_read(run: Run) -> None:
    result = run("ls", "--json", DATA, "-t", "txn", "-t", "segmets")
    assert {line["topic"] for line in result.json} == {"txn"}
    assert result.exit_code == 2


def test_patterns_name_internal_topics_only_if_they_begin_as_those(run: Run, tmp_path: Path) -> None:
    def exported(to: str, *arguments: object) -> set[str]:
        assert run("export", DATA, "--to", tmp_path / to, *arguments).exit_code == 0
        return {path.name.removeprefix("topic=") for path in (tmp_path / to).iterdir() if path.is_dir()}

    assert exported("all", "-t", "t*", "-t", "*_offsets") == exported("few", "-t", "t*")
    assert "__consumer_offsets" in exported("named", "-t", "t*", "-t", "__consumer_[o]*")
    converted = run("convert", DATA, "--to", tmp_path / "converted", "--batch-size", "0", "-t", "*", "--json")
    internal = {line["topic"]: line["isCopied"] for line in converted.json if is_internal(line["topic"])}
    assert internal
    assert all(internal.values())


def test_a_directory_without_partitions_has_nothing_to_list(run: Run, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    for options in ([], ["--exclude-internal"]):
        result = run("ls", tmp_path, *options)
        assert (result.exit_code, result.err) == (0, "")
    assert run("ls", tmp_path, "-t", "clicks").exit_code == 2
