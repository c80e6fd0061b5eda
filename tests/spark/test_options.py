"""The options are read as spark-sql-kafka and Spark's own readers have them; what is wrong says what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.errors import UsageError
from brokerless.spark.options import Limit, Options, TopicSelection, parse_options


def parse(**options: str) -> Options:
    return parse_options({"path": "/logs", **options})


def test_without_options_everything_is_read() -> None:
    assert parse() == Options(paths=("/logs",))


def test_options_for_a_broker_are_passed_over() -> None:
    options = {"kafka.bootstrap.servers": "a:9092", "kafka.group.id": "g", "kafka.ssl.truststore.location": "t"}
    assert parse(**options, maxOffsetsPerTrigger="5", groupIdPrefix="p") == parse()


def test_names_are_of_any_case_and_values_trimmed() -> None:
    options = parse(STARTINGOFFSETS=" Earliest ", includeheaders="TRUE", **{"KAFKA.ISOLATION.LEVEL": "READ_COMMITTED"})
    assert options == Options(paths=("/logs",), headers=True, committed=True)


def test_paths_come_from_load_with_one_or_many() -> None:
    assert parse_options({"paths": '["/a", "/b"]'}).paths == ("/a", "/b")
    assert parse_options({"path": "logs/*"}).paths == (str(Path.cwd() / "logs/*"),)
    assert parse_options({"path": "s3://bucket/logs"}).paths == ("s3://bucket/logs",)


def test_what_a_batch_may_inflate_to_goes_by_its_former_name_as_well() -> None:
    assert parse().max_batch_bytes == 128 << 20
    assert parse(maxBatchBytes="100").max_batch_bytes == parse(maxInflatedBytes="100").max_batch_bytes == 100
    assert parse(maxBatchBytes="100", maxInflatedBytes="200").max_batch_bytes == 100


def test_topics() -> None:
    assert parse(subscribe="a, b,,").topics == TopicSelection(subscribe=frozenset({"a", "b"}))
    assert parse(assign='{"a":[0,1],"b":[2]}').topics == TopicSelection(
        assign=frozenset({("a", 0), ("a", 1), ("b", 2)})
    )
    pattern = parse(subscribePattern=".*").topics
    assert pattern.have("orders", 3)
    for internal in ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"):
        assert not pattern.have(internal, 0)
    assert pattern.have("__debezium-heartbeat.shop", 0)
    assert not parse(subscribePattern="order").topics.have("orders", 0)


def test_the_first_of_timestamp_timestamps_and_offsets_counts() -> None:
    offsets = '{"a":{"0":23,"1":-2}}'
    assert parse(startingOffsets=offsets).start == Limit(offsets={("a", 0): 23, ("a", 1): -2})
    both = parse(startingOffsets=offsets, startingOffsetsByTimestamp='{"a":{"0":5}}')
    assert both.start == Limit(timestamps={("a", 0): 5})
    assert parse(startingOffsets=offsets, startingTimestamp="1600000000000").start == Limit(timestamp=1600000000000)
    assert parse(endingOffsets='{"a":{"0":-1}}', endingTimestamp="7").end == Limit(timestamp=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "only one of"),
        ({"subscribe": " , "}, "no topics"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": '{"a":0}'}, "topicA"),
        ({"assign": "["}, "topicA"),
        ({"startingOffsets": "latest"}, "not possible in a batch query"),
        ({"endingOffsets": "earliest"}, "not possible in a batch query"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "not possible in a batch query"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "not possible in a batch query"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "-3"),
        ({"startingOffsets": "5"}, "earliest"),
        ({"startingOffsets": '{"a":{"x":5}}'}, "topicA"),
        ({"startingOffsets": '{"a":{"0":true}}'}, "topicA"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'}, "is past"),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"1":9}}'}, "different partitions"),
        ({"startingTimestamp": "yesterday"}, "milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error, latest"),
        ({"minPartitions": "0"}, "above 0"),
        ({"maxRecordsPerPartition": "many"}, "above 0"),
        ({"includeHeaders": "yes"}, "true, false"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted, read_committed"),
        ({"table": "offsets"}, "records, batches, segments, transactions"),
        ({"mode": "IGNORE"}, "FAILFAST, PERMISSIVE, DROPMALFORMED"),
        ({"include": "dead"}, "future, delete, stray"),
        ({"storageOptions": "anon"}, "anon"),
        ({"startingOffset": "earliest"}, "startingOffsets"),
        ({"kafka.isolation.levle": "read_committed"}, "is 'kafka.isolation.level' meant"),
        ({"kafka.isolationLevel": "read_committed"}, "is 'kafka.isolation.level' meant"),
        ({"isolation.level": "read_committed"}, "is 'kafka.isolation.level' meant"),
        ({"path": ""}, "no path"),
        ({"path": ""}, "CREATE TEMPORARY VIEW"),
        ({"provider": "brokerless", "owner": "root"}, "CREATE TEMPORARY VIEW"),
        ({"header": "true"}, "there is no option 'header'; is 'includeHeaders' meant|there are path"),
        ({"partitionBytes": "5"}, "maxPartitionBytes"),
        ({"decode": "false", "keyFormat": "long"}, "nothing is decoded with decode=false"),
        ({"foo": "bar"}, "there is no option 'foo'; there are path, .*kafka.isolation.level"),
    ],
    ids=str,
)
def test_what_is_wrong_says_what_is_allowed(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(**options)
