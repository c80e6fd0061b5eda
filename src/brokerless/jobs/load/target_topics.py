"""Checks the topics that records are loaded into, and chooses their IDs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from brokerless.errors import UsageError
from brokerless.jobs.load.routing import Routing
from brokerless.log import names
from brokerless.log.checkpoint.topic_ids import random_id, topic_ids_there
from brokerless.log.commit.job_commit import id_of, partitions_of
from brokerless.log.storage.destination import Destination

if TYPE_CHECKING:
    from brokerless.internals.metadata.cluster import Cluster


class TargetTopics:
    """The topics of a log directory that is written to. ``job`` names the job of which the writer is a task, if it is
    one."""

    def __init__(self, directory: Destination, routing: Routing, job: str | None) -> None:
        self._directory, self._routing, self._job = directory, routing, job
        self._ids: dict[str, str] = {}

    def id_of(self, topic: str) -> str:
        """Return the topic's ID. Raises :class:`UsageError` for a topic that is not to be written, or whose partitions
        in the directory have another ID or higher numbers than were requested."""
        if topic not in self._ids:
            self._check_internal(topic)
            self._check_partitions(topic)
            self._ids[topic] = self._choose_id(topic)
        return self._ids[topic]

    def unknown(self, partitions: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        """Those of some written partitions that the cluster's metadata in the directory does not have."""
        cluster = self._cluster if self._ids else None
        if cluster is None:
            return ()
        unknown = [(topic, partition) for topic, partition in partitions if cluster.row(topic, partition) is None]
        return tuple(names.partition_directory(*place) for place in sorted(unknown))

    @cached_property
    def _cluster(self) -> Cluster | None:
        from brokerless.internals.topic_settings import cluster_in  # it imports kernels

        return cluster_in(self._directory.location)

    def _check_partitions(self, topic: str) -> None:
        there, requested = max(partitions_of(self._directory, topic), default=0), self._routing.partitions
        if requested is not None and there >= requested:
            raise UsageError(
                f"{self._directory}: there is a partition {names.partition_directory(topic, there)}, so {topic} has "
                f"more than {requested} partitions; say how many (partitions), so that keys stay where they are"
            )

    def _check_internal(self, topic: str) -> None:
        if topic == names.CLUSTER_METADATA or (names.is_internal(topic) and topic != self._routing.topic):
            what = "KRaft's own log, which is not to be written" if topic == names.CLUSTER_METADATA else "Kafka's own"
            raise UsageError(
                f"{topic}: this topic is {what}; leave its records out, or load those of __consumer_offsets and the "
                "like by themselves, naming the topic (--topic)"
            )

    def _choose_id(self, topic: str) -> str:
        there, requested = topic_ids_there(self._directory, {topic}).get(topic), self._routing.topic_id
        if requested is not None and there not in (None, requested):
            raise UsageError(f"{self._directory}: the partitions of {topic} that are there have the ID {there}")
        known = None if self._cluster is None else self._cluster.id_of(topic)
        found = requested or there or known or self._routing.exported_ids.get(topic)
        return found or (random_id() if self._job is None else id_of(self._job, topic))
