"""Tiered topics of a running broker: what is read of its bucket and its directory is what a consumer gets, while it
uploads, after records expired, and where it was killed in the middle of a copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

import brokerless
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import some_records
from tests.kafka.producers import consume, produce_confluent
from tests.kafka.tiered import ISOLATIONS, alter_topic, checkpointed, rows_of, s3_settings, tiered_settings, wait_for
from tests.s3 import S3

pytestmark = pytest.mark.xdist_group("tiered")

SETTINGS: dict[str, Any] = {"remote_storage_enable": "true", "internal_segment_bytes": 8000, "local_retention_bytes": 1}
PARTITIONS = 2


@dataclass(frozen=True)
class Tiered:
    """``bucket``: a path, or the URL of an S3 server's; ``hold``: the file that holds a copy while it is there."""

    broker: KafkaBroker
    bucket: str
    hold: Path
    file_system: Any

    def objects(self) -> Counter[str]:
        """How many objects there are of each partition, by the name of its directory on a broker."""
        self.file_system.invalidate_cache()
        return Counter(each.split("/")[-2][: -len("-") - 22] for each in self.file_system.find(self.bucket))

    def check(self, topic: str, partition: int) -> int:
        """Compare with a consumer, in both isolations; return how many records there are."""
        theirs = [consume(self.broker, topic, partition, isolation) for isolation in ISOLATIONS]
        ours = [
            rows_of(self.broker.log_dir, topic, partition, isolation, remote=self.bucket) for isolation in ISOLATIONS
        ]
        assert ours == theirs
        return len(theirs[0])

    def is_uploaded(self, topic: str, partition: int = 0) -> bool:
        """Whether one segment is on the disk, and all before it in the bucket."""
        return len(self.broker.logs(topic, partition)) == 1 and self.objects()[f"{topic}-{partition}"] > 0


@pytest.fixture(scope="module", params=["directory", "s3"])
def tiered(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, s3: S3, request: pytest.FixtureRequest
) -> Iterator[Tiered]:
    root = tmp_path_factory.mktemp("tiered")
    bucket, is_s3 = root / "bucket", request.param == "s3"
    url = s3.url("brokers") if is_s3 else str(bucket)
    settings = s3_settings(f"{s3.endpoint}/{s3.bucket}/brokers", bucket) if is_s3 else tiered_settings(bucket)
    with KafkaBroker(root / "broker", settings) as broker:
        file_system = s3.file_system() if is_s3 else fsspec.filesystem("file")
        yield Tiered(broker, url, root / "bucket.hold", file_system)


def test_what_is_read_while_a_broker_uploads_is_what_a_consumer_gets(tiered: Tiered) -> None:
    tiered.broker.create_topic("uploaded", PARTITIONS, **SETTINGS)
    codecs = ("none", "zstd", "lz4", "gzip")
    for number in range(8):
        records = some_records(number, 500, PARTITIONS, largest=900)
        transaction = ("none", "commit", "none", "abort")[number % 4]
        produce_confluent(tiered.broker, "uploaded", records, codecs[number % 4], transaction, batch_size=2000)
        if not number:
            wait_for(tiered.objects, "there is a bucket")
        assert all(tiered.check("uploaded", each) for each in range(PARTITIONS))
    for each in range(PARTITIONS):
        wait_for(lambda each=each: tiered.is_uploaded("uploaded", each), "all but the active segment is remote")
        remote = rows_of(tiered.bucket, "uploaded", each, "read_uncommitted")
        assert remote
        assert remote == consume(tiered.broker, "uploaded", each)[: len(remote)]
        tiered.check("uploaded", each)


def test_what_is_read_after_records_expired_is_what_a_consumer_gets(tiered: Tiered) -> None:
    tiered.broker.create_topic("expired", **SETTINGS)
    produce_confluent(tiered.broker, "expired", some_records(1, 900, largest=900), batch_size=2000)
    wait_for(lambda: tiered.is_uploaded("expired"), "all but the active segment is remote")
    before = tiered.check("expired", 0)
    alter_topic(tiered.broker, "expired", retention_bytes=9_000)
    wait_for(lambda: tiered.broker.watermarks("expired")[0][0], "segments expire")
    last: tuple[int, int] | None = None

    def has_ended() -> bool:
        """A broker deletes objects, then moves the log start, and then goes on with the next segment."""
        nonlocal last
        before, last = last, (tiered.broker.watermarks("expired")[0][0], tiered.objects()["expired-0"])
        return before == last and last[0] == checkpointed(tiered.broker, "expired", 0)

    wait_for(has_ended, "the log start is in the checkpoint")
    assert 0 < tiered.check("expired", 0) < before


def test_what_a_kill_in_the_middle_of_a_copy_leaves_is_read(tiered: Tiered, tmp_path: Path) -> None:
    """The object of the segment is cut then; a broker that starts again copies the segment again."""
    broker, hold = tiered.broker, tiered.hold
    held = hold.with_name("bucket.held") if tiered.file_system.protocol[0] == "file" else Path(f"{hold}.held")
    broker.create_topic("killed", **SETTINGS)
    produce_confluent(broker, "killed", some_records(2, 300, largest=900), batch_size=2000)
    wait_for(lambda: tiered.is_uploaded("killed"), "all but the active segment is remote")
    hold.touch()
    produce_confluent(broker, "killed", some_records(3, 300, largest=900), "none", "commit", batch_size=2000)
    cut = wait_for(lambda: held.exists() and held.read_text(), "a copy is held").rpartition("bucket/")[2]
    known = [consume(broker, "killed", isolation=each) for each in ISOLATIONS]
    broker.kill()
    assert cut.startswith("killed-0-")
    left = [rows_of(broker.log_dir, "killed", 0, each, remote=tiered.bucket) for each in ISOLATIONS]
    assert left == known
    hold.unlink()
    broker.start()
    wait_for(lambda: tiered.is_uploaded("killed"), "the segment is copied again")
    assert tiered.file_system.exists(f"{tiered.bucket}/{cut}")  # for ever
    assert [consume(broker, "killed", isolation=each) for each in ISOLATIONS] == known
    assert tiered.check("killed", 0) == len(known[0])
    left_by_the_kill = cut.rpartition("/")[2][21:43]
    assert {each.segment_id for each in orphans(tiered)} == {left_by_the_kill}
    rebuilt = brokerless.rebuild([], tmp_path / "to", from_bucket=tiered.bucket, apply=True)
    assert rebuilt.from_bucket is not None
    (own,) = [each.partition for each in rebuilt.from_bucket.stand_ins if each.partition.topic == "killed"]
    assert left_by_the_kill not in {each.segment_id for each in own.segments}
    again = rows_of(tmp_path / "to" / "node-1", "killed", 0, "read_uncommitted", remote=tiered.bucket)
    assert again == known[0][: len(again)]
    assert own.end_offset == known[0][len(again) - 1].offset + 1


def orphans(tiered: Tiered) -> list[Any]:
    """By all that brokers and the bucket have; the directory is that of a running broker."""
    remote = brokerless.open(tiered.broker.log_dir, remote=tiered.bucket).audit().remote
    assert remote is not None
    return [each for each in remote.orphans if each.topic == "killed"]
