"""The metadata has the names of all topics by their IDs; for deleted ones, a broker is asked (``test_listing``)."""

from __future__ import annotations

from pathlib import Path

import brokerless
from brokerless.errors import raise_errors
from brokerless.internals.metadata.cluster import read_cluster
from brokerless.internals.metadata.topic_names import topic_names

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_topics_that_are_there_have_their_names() -> None:
    metadata = brokerless.open(DEMO / "__cluster_metadata-0").partitions[0]
    there = read_cluster(metadata.paths[0], raise_errors).topics
    assert there
    assert there.items() <= topic_names(metadata.paths[0]).items()
