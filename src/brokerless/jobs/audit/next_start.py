"""Finds what keeps a broker from starting on a log directory, or from serving a partition, in ``restart``'s words.

A copy of some partitions has no ``meta.properties``; nothing of this is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.jobs.directory_state import DirectoryState
from brokerless.jobs.restart.directory_files import check_node_files, load_properties, loaded_directories
from brokerless.jobs.restart.refused_settings import refused_settings
from brokerless.jobs.restart.replicas import read_state
from brokerless.log import names
from brokerless.log.directory import LogDirectory
from brokerless.log.settings.definitions import versions
from brokerless.log.storage.paths import is_remote
from brokerless.tables.partition_reader import PartitionReader


def check_start(directory: LogDirectory, state: DirectoryState) -> Iterator[Finding]:
    """Names of directories at which a broker ends, its node files, partitions without ``partition.metadata``, and
    settings that the newest Kafka refuses. What
    :func:`brokerless.jobs.directory_state.check_directory` reports is left out."""
    if directory.kind != "log-directory" or is_remote(directory.path) or names.META_PROPERTIES not in state.files:
        return
    loaded, findings = loaded_directories(directory)
    for each in findings:
        if each.kind != Kind.PARTITION_METADATA_CORRUPT:  # which is reported of the partition
            yield replace(each, severity="warning")
    properties = load_properties(directory)
    reported = {*state.findings, *(() if properties is None else properties.findings)}
    for each in check_node_files(directory, properties):
        if each not in reported:
            yield replace(each, severity="warning")
    paths = {each.path: each for each in directory.partitions}
    for each in loaded:
        partition = paths.get(each.path)
        if partition is not None and partition.partition_metadata is None and each.state == "live":
            text = "there is no partition.metadata: a broker renames this to -stray, and serves the topic without it"
            yield Finding("warning", Kind.PARTITION_METADATA_MISSING, each.path, message=text)
    yield from _refused_settings(directory)


def _refused_settings(directory: LogDirectory) -> Iterator[Finding]:
    metadata = next((each for each in directory.partitions if each.topic == names.CLUSTER_METADATA), None)
    if metadata is None:
        return
    with suppress(UnreadableError):  # which is reported of the partition
        state = read_state(PartitionReader(metadata), None)
        for each in () if state is None else refused_settings(state, f"{metadata.path}/", versions()[-1]):
            yield replace(each, severity="warning")
