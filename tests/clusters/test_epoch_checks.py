"""A ``leader-epoch-checkpoint`` that contradicts the batches next to it, in verify as in audit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import broker_data
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import golden as golden_tiered

import brokerless
from brokerless.cli import main
from brokerless.findings import Finding, Kind

PLACE, END = "epochs-0", 324
KINDS = (Kind.LEADER_EPOCH_MISMATCH, Kind.LEADER_EPOCH_BEYOND_END, Kind.REMOTE_EPOCHS_LOST)


def of_epochs(findings: list[Finding]) -> list[tuple[str, int | None]]:
    return [(each.kind, each.offset) for each in findings if each.kind in KINDS]


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A partition without remote segments, with epochs 0, 2 and 4."""
    brokerless.open(golden_tiered() / "plain" / "bucket").convert(tmp_path / "local", message_format=2)
    return tmp_path / "local" / PLACE


def checkpoint(*entries: tuple[int, int]) -> str:
    return "\n".join(["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries), ""])


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (((0, 0), (2, 140), (4, 224)), []),
        (((0, 0), (2, 150), (4, 224)), [(Kind.LEADER_EPOCH_MISMATCH, 140)]),
        (((0, 0), (4, 224)), [(Kind.LEADER_EPOCH_MISMATCH, 140)]),
        (((2, 140), (4, 224)), []),
        (((0, 0), (2, 140), (4, 224), (6, 5000)), [(Kind.LEADER_EPOCH_BEYOND_END, 5000)]),
        (((0, 0), (2, 139), (4, 224)), [(Kind.LEADER_EPOCH_MISMATCH, 139)]),
        (((0, 0), (2, 140), (4, 160)), [(Kind.LEADER_EPOCH_MISMATCH, 160)]),
        (((0, 0), (1, 70), (2, 140), (4, 224)), [(Kind.LEADER_EPOCH_MISMATCH, 70)]),
        (((0, 0), (2, 140), (4, 224), (5, 230)), [(Kind.LEADER_EPOCH_MISMATCH, 230)]),
        (((0, 0), (2, 140), (4, 224), (5, END)), []),
        (((0, 70), (2, 140), (4, 224)), []),
        (((2, 180), (4, 224)), []),
        (((2, 100), (4, 224)), [(Kind.LEADER_EPOCH_MISMATCH, 100)]),
    ],
)  # fmt: skip
def test_a_checkpoint_against_the_batches(
    local: Path,
    entries: tuple[tuple[int, int], ...],
    expected: list[tuple[str, int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (local / "leader-epoch-checkpoint").write_text(checkpoint(*entries))
    log = brokerless.open(local)
    assert of_epochs(list(log.verify())) == expected
    (audited,) = log.audit().partitions
    assert of_epochs(list(audited.findings)) == expected
    assert of_epochs(list(brokerless.open(local.parent).verify())) == expected
    assert main(["verify", str(local), "--jobs", "2"]) == 0
    assert ("leader epoch" in capsys.readouterr().out) == bool(expected)


def test_a_checkpoint_that_empties_the_bucket_is_an_error_in_both(tmp_path: Path) -> None:
    data = broker_directory("plain", tmp_path / "data")
    (data / PLACE / "leader-epoch-checkpoint").write_text(checkpoint((9, 0)))
    bucket = golden_tiered() / "plain" / "bucket"
    log = brokerless.open(data, remote=bucket)
    found = of_epochs(list(log.partition("epochs", 0).verify()))
    assert found == [(Kind.REMOTE_EPOCHS_LOST, None)]
    assert of_epochs(list(log.partition("epochs", 0).audit().findings)) == found


def test_of_a_run_with_a_budget_nothing_is_compared(local: Path, tmp_path: Path) -> None:
    (local / "leader-epoch-checkpoint").write_text(checkpoint((0, 0), (4, 224)))
    log = brokerless.open(local)
    assert not of_epochs(list(log.verify(budget=1, state=tmp_path / "state.json")))
    assert of_epochs(list(log.verify(budget=1 << 30, state=tmp_path / "other.json")))


@pytest.mark.parametrize("cleaned", [(20, 50), (120, 160)])
def test_a_start_where_batches_were_cleaned_away(local: Path, cleaned: tuple[int, int]) -> None:
    """Nothing is proven between batches of different epochs; between those of one epoch, another one cannot begin."""
    for each in sorted(local.glob("*.log")):
        data, kept, at = each.read_bytes(), b"", 0
        while at < len(data):
            offset, size = int.from_bytes(data[at : at + 8]), int.from_bytes(data[at + 8 : at + 12]) + 12
            kept += b"" if cleaned[0] <= offset < cleaned[1] else data[at : at + size]
            at += size
        each.write_bytes(kept)
    start = sum(cleaned) // 2
    entries = [(0, 0), (1, start), (2, 140), (4, 224)] if start < 140 else [(0, 0), (2, start), (4, 224)]
    (local / "leader-epoch-checkpoint").write_text(checkpoint(*entries))
    found = of_epochs(list(brokerless.open(local).verify()))
    assert (found == []) == (cleaned[1] > 140)
    assert {each for each, _ in found} <= {Kind.LEADER_EPOCH_MISMATCH}


def test_a_log_that_was_truncated_while_it_was_read_is_not_compared(local: Path) -> None:
    """A leader of a later epoch has begun within what was read, and the checkpoint says so."""
    findings = brokerless.open(local).verify()
    last = max(local.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    (local / "leader-epoch-checkpoint").write_text(checkpoint((0, 0), (2, 100)))
    assert of_epochs(list(findings)) == []


def test_what_brokers_wrote_is_right() -> None:
    written = [*golden_tiered().glob("*/data"), *Path("demo/replicas").iterdir(), Path("demo/data")]
    for directory in [*map(broker_data, ("clean", "unclean", "old-formats")), *written]:
        assert not of_epochs(list(brokerless.open(directory).verify())), directory


def test_a_log_that_a_broker_goes_on_with_is_not_compared_at_its_end(local: Path) -> None:
    """Between listing and reading, a leader has appended."""
    (local / "leader-epoch-checkpoint").write_text(checkpoint((1, 0), (2, 140), (4, 224), (6, 5000)))
    log = brokerless.open(local)
    last = max(local.glob("*.log"))
    assert int(last.stem) > 0
    findings = log.verify()
    with last.open("ab") as file:
        file.write(b"\0")
    assert of_epochs(list(findings)) == [(Kind.LEADER_EPOCH_MISMATCH, 0)]
