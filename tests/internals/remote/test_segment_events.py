"""Written events of ``__remote_log_metadata`` against those of brokers, byte by byte."""

from __future__ import annotations

from base64 import b64encode

import pytest
from tests.internals.remote.metadata import SETS, events, metadata

from brokerless.internals.remote.segment_events import events_of, metadata_partition
from brokerless.internals.remote.segment_metadata import read_remote_metadata
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


@pytest.mark.parametrize("set_", SETS)
def test_events_are_those_that_brokers_wrote(set_: str) -> None:
    theirs = {(each["segmentId"], each["state"]): each for each in events(set_)}
    read = read_remote_metadata(resolve(Location(str(metadata() / set_ / "data"))).partitions, lambda _: None)
    segments = [one for of_partition in read.segments.values() for one in of_partition.values()]
    finished = [each for each in segments if each.state == "COPY_SEGMENT_FINISHED"]
    assert finished
    for each in finished:
        ours = [b64encode(value).decode() for value in events_of(each)]
        states = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED")
        assert ours == [theirs[each.segment_id, state]["value"] for state in states]


@pytest.mark.parametrize("set_", SETS)
def test_events_are_in_the_partition_that_brokers_choose(set_: str) -> None:
    chosen = {(each["topicId"], each["partition"]): each["metadataPartition"] for each in events(set_)}
    assert {place: metadata_partition(*place, 50) for place in chosen} == chosen  # of Kafka's default
