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

PLACE = "epochs-0"
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


def test_what_brokers_wrote_is_right() -> None:
    for directory in [broker_data("clean"), *(each for each in golden_tiered().glob("*/data"))]:
        assert not of_epochs(list(brokerless.open(directory).verify())), directory


def test_a_log_that_a_broker_goes_on_with_is_not_compared_at_its_end(local: Path) -> None:
    """Between reading the log and the checkpoint, a leader of a later epoch has appended."""
    log = brokerless.open(local)
    last = max(local.glob("*.log"))
    assert int(last.stem) > 0
    (local / "leader-epoch-checkpoint").write_text(checkpoint((1, 0), (2, 140), (4, 224), (6, 5000)))
    findings = log.verify()
    with last.open("ab") as file:
        file.write(b"\0")
    assert of_epochs(list(findings)) == [(Kind.LEADER_EPOCH_MISMATCH, 0)]
