from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from tests.cli.conftest import Run
from tests.examples import some_quick
from tests.golden import CONSUMERS_THROW, broker_data, cases

from brokerless.log import names
from brokerless.log.storage.directory_lock import NO_BROKER


def test_what_a_broker_left_at_a_clean_shutdown_is_intact(run: Run) -> None:
    result = run("verify", broker_data("clean"))
    assert result.exit_code == 0
    assert result.lines[0].startswith("0 errors")


@pytest.mark.parametrize("category", some_quick(["framing", "damaged", "formats"]))
def test_there_is_an_error_where_kafka_throws_first_and_else_none(run: Run, category: str) -> None:
    chosen = cases(category)
    result = run("verify", "--json", *(case.log for case in chosen))
    firsts: dict[str, int] = {}
    for finding in result.json:
        assert set(finding) >= {"severity", "kind", "file", "position", "offset", "message", "expected", "found"}
        # At the first kind, Kafka's reader ends in silence.
        if finding["severity"] == "error" and finding["kind"] not in ("no-batches", *CONSUMERS_THROW):
            firsts.setdefault(finding["file"], finding["position"])
    expected: dict[str, int] = {}
    for case in chosen:
        for line in case.expected():
            if line["type"] == "error" and line["phase"] != "recordsNonStreaming":
                expected.setdefault(str(case.log), line["position"])
        (end,) = (line for line in case.expected() if line["type"] == "end")
        if str(case.log) not in expected and firsts.get(str(case.log)) == end["position"]:
            del firsts[str(case.log)]  # Kafka's reader ends in silence, and intact batches follow
    assert firsts == expected
    assert result.exit_code == (1 if any(each["severity"] == "error" for each in result.json) else 0)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed broker's directory, with the mark of a clean stop: no broker recovers the zeros in it."""
    path = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(broker_data("unclean"), path)
    (path / names.CLEAN_SHUTDOWN).write_bytes(NO_BROKER)
    return path


def test_zeros_that_a_recovery_cuts_off_are_no_damage_to_verify_and_audit(run: Run, damaged: Path) -> None:
    """A killed broker's, with log.preallocate."""
    for data, severity in ((broker_data("unclean"), "info"), (damaged, "error")):
        verified, audited = (
            [(each["severity"], each["position"]) for each in run(*line, data).json if each["kind"] == "zero-tail"]
            for line in (("verify", "--json"), ("audit", "--json"))
        )
        assert verified == audited
        assert [each for each, _ in verified] == [severity]
    lost = next(line for line in run("audit", broker_data("unclean")).lines if line.startswith("lost"))
    assert lost.split() == ["lost", "nothing"]
    lone = next(each["file"] for each in run("verify", "--json", damaged).json if each["kind"] == "zero-tail")
    assert run("verify", lone).exit_code == 1  # of a file by itself nothing is known


def test_for_people_each_finding_is_a_line(run: Run, damaged: Path) -> None:
    result = run("verify", damaged)
    summary, *findings = result.lines
    assert result.exit_code == 1
    assert any(line.startswith("error ") for line in findings)
    assert summary == "1 error, 1 warning"


def test_an_unreadable_path_does_not_hide_the_others(run: Run, damaged: Path) -> None:
    result = run("verify", "--json", "nowhere", damaged)
    assert result.exit_code == 2
    assert any(finding["severity"] == "error" for finding in result.json)


TEXT = b"2024-05-01 12:00:00,123 INFO this is a line of some log, and none of Kafka's\n" * 9
COMMANDS = ("verify", "cat", "batches", "ls", "audit")


@pytest.mark.parametrize("name", ["passwd", "00000000000000000000.log", "00000000000000000042.log"])
@pytest.mark.parametrize("content", [TEXT, TEXT[:9], b"\x1f\x8b\x08\x00" + TEXT], ids=["text", "nine bytes", "gzip"])
def test_a_file_that_is_no_log_is_an_error_in_all_commands(run: Run, tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for command in COMMANDS:
        result = run(command, path)
        assert result.exit_code == 1, command
        assert "nothing here reads as a batch" in result.out.decode() + result.err


@pytest.mark.parametrize(
    ("name", "begin", "said"),
    [
        ("x.log.gz", gzip.compress(TEXT), "this is gzip; it is read with: zcat {path} | brokerless cat -"),
        ("x.log.xz", lzma.compress(TEXT), "this is xz; it is read with: xzcat {path} | brokerless cat -"),
        ("x.log.bz2", bz2.compress(TEXT), "this is bzip2; "),
        ("x.log.zst", zstandard.compress(TEXT), "this is zstd; it is read with: zstdcat {path} | brokerless cat -"),
        ("x.parquet", b"PAR1" + TEXT, "this is Parquet; brokerless load makes a log of it"),
    ],
    ids=("gzip", "xz", "bzip2", "zstd", "parquet"),
)
def test_what_is_no_log_is_called_by_its_name_with_what_to_do(
    run: Run, tmp_path: Path, name: str, begin: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(begin)
    for command in COMMANDS:
        result = run(command, path)
        assert result.exit_code == 1, command
        assert f"nothing here reads as a batch: {said.format(path=path)}" in result.out.decode() + result.err


def test_archives_are_called_so_though_there_are_logs_in_them(run: Run, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(broker_data("clean") / "segments-0", "segments-0")
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted((broker_data("clean") / "segments-0").iterdir()):
            archive.writestr(f"segments-0/{each.name}", each.read_bytes())
    for name, said in (("x.tar", "this is a tar archive; unpack it"), ("x.zip", "this is a zip archive; ")):
        result = run("ls", tmp_path / name)
        assert result.exit_code == 1
        assert said in result.err


def test_a_log_whose_beginning_is_lost_is_not_taken_for_something_else(run: Run, tmp_path: Path) -> None:
    (source,) = (broker_data("clean") / "segments-0").glob("00000000000000000000.log")
    (tmp_path / source.name).write_bytes(b"\xff" * 100 + source.read_bytes()[100:])
    result = run("verify", tmp_path / source.name)
    assert "this is" not in result.out.decode()


@pytest.mark.parametrize("name", ["specials/segment-v0", "specials/segment-v1", "specials/segment-v2"])
def test_an_end_that_was_overwritten_is_an_error_and_one_not_yet_written_a_warning(
    run: Run, tmp_path: Path, name: str
) -> None:
    (case,) = (each for each in cases("specials") if each.name == name)
    log, last = case.log, [line for line in case.expected() if line["type"] == "batch"][-1]
    start, end = last["position"], last["position"] + last["sizeInBytes"]
    data, path = log.read_bytes()[:end], tmp_path / log.name
    cuts = [path.with_name(str(size)) / log.name for size in {*range(start + 1, start + 80, 7), end - 1} if size < end]
    for cut in cuts:
        cut.parent.mkdir()
        cut.write_bytes(data[: int(cut.parent.name)])
    result = run("verify", "--json", *cuts)
    assert result.exit_code == 0
    assert {finding["kind"] for finding in result.json} <= {"truncated-batch", "trailing-zeros"}
    assert len(result.json) == len(cuts)

    for size in (1, 7, 11, 17, 18, 300):
        path.write_bytes(data[:start] + TEXT[:size])
        for command in COMMANDS:
            assert run(command, path).exit_code == 1, (command, size)
        (finding,) = run("verify", "--json", path).json
        assert (finding["severity"], finding["kind"], finding["position"]) == ("error", "no-batches", start)
    path.write_bytes(data[:start] + TEXT[:300] + data[start:])
    kinds = [(finding["kind"], finding["position"]) for finding in run("verify", "--json", path).json]
    assert kinds == [("no-batches", start), ("batches-resume", start + 300)]


def test_an_end_with_an_offset_that_the_segment_cannot_have_is_an_error(run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"{1 << 32:020}.log"
    for offset, kind in ((1 << 32, "truncated-batch"), (1 << 33, "no-batches"), ((1 << 32) - 1, "no-batches")):
        path.write_bytes(offset.to_bytes(8, "big") + (500).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(100))
        assert [finding["kind"] for finding in run("verify", "--json", path).json] == [kind]
    for start, kind in (
        (b"\0\0\0\1", "truncated-batch"),
        (b"\0\0\0\0\xff", "no-batches"),
    ):
        path.write_bytes(start)
        (finding,) = run("verify", "--json", path).json
        assert (finding["kind"], finding["severity"] == "error") == (kind, kind == "no-batches")


def test_findings_that_say_the_same_are_one_line_with_their_count_and_the_last_place(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(20)]
    for path in paths:
        path.write_bytes(TEXT)
    (tmp_path / "x.log").write_bytes(bytes(5))
    paths.append(tmp_path / "x.log")
    result = run("verify", *paths)
    assert result.lines[0] == "20 errors, 0 warnings"
    assert result.lines[1].startswith("records   damaged or missing in 0.log, 1.log, ")
    (shown,) = (line for line in result.lines if line.startswith("error "))
    assert shown.startswith("error    0.log, position 0: ")
    assert shown.endswith("(20 times in 20 files; the last: 19.log, position 0)")
    assert result.lines[-1].startswith("info ")
    assert len(run("verify", "--json", *paths).json) == 21
    each = run("verify", "--all", *paths).lines
    assert [line.split(",")[0].split()[-1] for line in each if line.startswith("error ")] == [
        each.name for each in paths[:20]
    ]


def test_of_a_kind_that_says_something_else_each_time_the_first_few_are_shown(run: Run, tmp_path: Path) -> None:
    from brokerless.findings import Finding, Kind
    from brokerless.views.findings import FindingGroups

    groups = FindingGroups()
    for number in range(8):
        groups.add(
            Finding("warning", Kind.OFFSET_GAP, "a-0/x.log", position=number, offset=number, message=f"text {number}")
        )
    lines = list(groups.lines("a-0/"))
    assert len(lines) == 6
    assert lines[0] == "warning  x.log, position 0: text 0"
    assert lines[-1].strip() == "... and 3 more of this kind (offset-gap), 8 in 1 file; the last: x.log, position 7"


def test_only_what_is_bad_enough_is_shown_and_quietly_only_the_summary(run: Run, damaged: Path) -> None:
    data = damaged
    shown = [line.split()[0] for line in run("verify", "--min-severity", "error", data).lines]
    assert shown == ["1", "records", "error"]
    severities = {finding["severity"] for finding in run("verify", "--json", "--min-severity", "warning", data).json}
    assert severities == {"error", "warning"}
    result = run("verify", "-q", data)
    assert (result.exit_code, result.lines[0], len(result.lines)) == (1, "1 error, 1 warning", 2)
    result = run("verify", "-q", "--json", data)
    assert (result.exit_code, result.lines, result.err) == (1, [], "")
    assert run("verify", "-q", broker_data("clean")).exit_code == 0


def test_audit_shows_as_little(run: Run) -> None:
    data = broker_data("unclean")
    assert [line.split()[0] for line in run("audit", "-q", data).lines[1:]] == ["read", "lost", "start", "retention"]
    assert all(each["severity"] != "info" for each in run("audit", "--json", "--min-severity", "warning", data).json)


def test_programs_that_watch_get_what_was_found(run: Run, tmp_path: Path) -> None:
    shutil.copytree("demo/data/users-0", tmp_path / "logs" / "users-0")
    log = tmp_path / "logs" / "users-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    plain = run("verify", tmp_path / "logs")
    watched = run("verify", tmp_path / "logs", "--metrics", tmp_path / "metrics")
    assert (watched.exit_code, watched.out) == (1, plain.out)
    assert 'topic="users",partition="0"' in (tmp_path / "metrics").read_text()
    assert "brokerless_verify_exit_code 1\n" in (tmp_path / "metrics").read_text()
    refused = run("verify", tmp_path / "logs", "--metrics", tmp_path)
    assert (refused.exit_code, refused.out) == (2, b"")
    assert "this is a directory; name a file in it" in refused.err
    for path, said in (("nowhere/a", "there is no directory nowhere"), ("", "an empty text names no file")):
        refused = run("verify", tmp_path / "logs", "--metrics", path)
        assert (refused.exit_code, refused.out) == (2, b"")
        assert said in refused.err
