"""Finds what keeps a broker from starting on a log directory, or from serving a partition, in ``restart``'s words.

A copy of some partitions has no ``meta.properties``; nothing of this is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from brokerless.errors import Finding
from brokerless.jobs.directory_state import DirectoryState
from brokerless.jobs.restart.directory_files import check_node_files, load_properties, loaded_directories
from brokerless.log import names
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.paths import is_remote


def check_start(directory: LogDirectory, state: DirectoryState) -> Iterator[Finding]:
    """Names of directories at which a broker ends, its node files, and partitions without ``partition.metadata``. What
    :func:`brokerless.jobs.directory_state.check_directory` reports is left out."""
    if directory.kind != "log-directory" or is_remote(directory.path) or names.META_PROPERTIES not in state.files:
        return
    loaded, findings = loaded_directories(directory)
    for each in findings:
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
            yield Finding("warning", "partition-metadata-missing", each.path, None, None, text)
