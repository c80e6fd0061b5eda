"""What records of internal topics say is what Kafka's dump tool says, to the letter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import golden
from tests.internals.dumps import DECODERS, as_text, decoded_records, dumped_files, dumped_records
from tests.kafka import jars

from brokerless.internals.records import decode_record
from brokerless.log.names import REMOTE_LOG_METADATA

DUMPS = sorted(golden().glob("brokers/*/expected/*/*.dump.txt"))


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: "-".join(dump.parts[-4:-1:2]) + "-" + dump.name[15:-9])
def test_what_golden_brokers_wrote_is_decoded_as_kafka_does(dump: Path) -> None:
    data = Path(str(dump.parent).replace("/expected/", "/data/"))
    topic = dump.parent.name.rpartition("-")[0]
    ours = decoded_records(topic, data / dump.name.removesuffix(".dump.txt"))
    theirs = dumped_records(dump.read_text())
    assert all(record.problem is None for record in ours.values())
    assert {offset: as_text((said.key, said.payload)) for offset, said in ours.items()} == {
        offset: as_text(said) for offset, said in theirs.items()
    }


def random_logs(directory: Path, seed: int, count: int, mutate: bool) -> dict[str, Path]:
    arguments = (str(directory), str(seed), str(count), str(mutate).lower())
    jars.check(jars.run("InternalRecords", *arguments, helper=True, sources=jars.HELPERS_OF_4))
    return {topic: directory / f"{topic}-0" / f"{0:020}.log" for topic in DECODERS}


def test_random_records_of_every_type_and_version_are_decoded_as_kafka_does(kafka_jars: Path, tmp_path: Path) -> None:
    for topic, log in random_logs(tmp_path, 20_261, 12, mutate=False).items():
        (theirs,) = dumped_files(topic, [log]).values()
        ours = decoded_records(topic, log)
        assert len(ours) == len(theirs) > 20
        for offset, said in theirs.items():
            assert ours[offset].problem is None
            assert as_text((ours[offset].key, ours[offset].payload)) == as_text(said)


def test_broken_records_are_refused_where_kafka_refuses_them_and_else_decoded_as_it_does(
    kafka_jars: Path, tmp_path: Path
) -> None:
    refused = 0
    for topic, log in random_logs(tmp_path, 20_262, 40, mutate=True).items():
        (theirs,) = dumped_files(topic, [log]).values()
        for offset, ours in decoded_records(topic, log).items():
            if ours.problem is None:
                assert as_text((ours.key, ours.payload)) == as_text(theirs[offset])
            elif ours.problem[0] != "record-version-unknown":  # which Kafka takes for the newest one
                assert theirs[offset] is None
                refused += 1
    assert refused > 200


@pytest.mark.parametrize("mutate", [False, True])
def test_records_of_tiered_storage_are_decoded_and_refused_as_kafkas_own_converters_do(
    mutate: bool, kafka_jars: Path, tmp_path: Path
) -> None:
    arguments = (str(tmp_path), "20263", "100", str(mutate).lower())
    done = jars.run("RemoteLogRecords", *arguments, helper=True, sources=jars.HELPERS_OF_4)
    theirs = list(map(json.loads, jars.check(done).splitlines()))
    ours = decoded_records(REMOTE_LOG_METADATA, tmp_path / f"{REMOTE_LOG_METADATA}-0" / f"{0:020}.log")
    refused = 0
    assert len(ours) == len(theirs) == 400
    for offset, said in enumerate(theirs):
        assert as_text((None, ours[offset].payload)) == as_text((None, said)), ours[offset]
        refused += said is None
    assert (refused > 40) == mutate


@pytest.mark.parametrize(
    ("topic", "key", "value", "kind", "type_"),
    [
        ("__consumer_offsets", b"\x03\xe8group", b"\0\0", "record-type-unknown", None),
        ("__consumer_offsets", b"\0\x02\0\1g", b"\0\x07", "record-version-unknown", "GROUP_METADATA"),
        ("__consumer_offsets", None, b"\0\0", "record-unreadable", None),
        ("__consumer_offsets", b"", None, "record-unreadable", None),
        ("__transaction_state", b"\0\0\0\1t", b"\0\x02", "record-version-unknown", "TRANSACTION_LOG"),
        ("__share_group_state", b"\0\x02", b"", "record-type-unknown", None),
        ("__cluster_metadata", None, b"\x01\xe8\x07\0", "record-type-unknown", None),
        ("__remote_log_metadata", None, b"\x01\x04\0", "record-type-unknown", None),
        ("__cluster_metadata", None, b"\x01\x02\x01\0", "record-version-unknown", "TOPIC_RECORD"),
        ("__cluster_metadata", None, b"\x02\x02\0\0", "record-version-unknown", None),
        ("__cluster_metadata", None, None, "record-unreadable", None),
    ],
)
def test_what_is_not_known_stays_bytes_and_is_reported(
    topic: str, key: bytes | None, value: bytes | None, kind: str, type_: str | None
) -> None:
    record = decode_record(topic, key, value)
    assert record.problem is not None
    assert (record.problem[0], record.type, record.payload) == (kind, type_, None)
