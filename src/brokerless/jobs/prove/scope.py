"""Compares the scope of a proof with the whole source: partitions outside of it must have no selected record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.erase.copies import OtherPlace, count_selected, other_places
from brokerless.jobs.erase.job import Erasure
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.storage.location import Location
from brokerless.progress import Report
from brokerless.text import count_of


@dataclass(frozen=True, slots=True)
class ProofScope:
    """The partitions that a proof is about."""

    partitions: int
    """How many live partitions the source has."""
    left_out: int
    """How many of these the manifest does not have."""
    only: tuple[str, ...] = ()
    """The topics and partitions that the caller named; empty for all."""

    def as_dict(self) -> dict[str, object]:
        return {"partitions": self.partitions, "leftOut": self.left_out, "only": list(self.only)}


def find_sources(location: Location) -> list[LogDirectory]:
    """List the log directories of a source: itself, or those directly in it. Of a partition's directory there are
    none, as what is next to it was not given. Raises UnreadableError for a directory that cannot be listed."""
    try:
        own = resolve(location, as_it_lies=True)
        return [own] if own.kind == "log-directory" else []
    except UnreadableError:
        found: list[LogDirectory] = []
        for entry in location.entries():
            if entry.is_directory:
                try:
                    inner = resolve(entry.location, as_it_lies=True)
                except UnreadableError:
                    continue
                found += [inner] if inner.kind == "log-directory" else []
        return found


def check_scope(
    sources: Sequence[LogDirectory],
    claimed: Collection[str],
    only: Sequence[str],
    erasure: Erasure | None,
    report: Report,
) -> ProofScope:
    """Report what is selected outside of the partitions whose paths are ``claimed``, and return the scope.

    ``only``: topics (``orders``) and partitions (``orders-0``) outside of which nothing is looked for. ``erasure``:
    None if it is not known which records were selected; then partitions are named without a count. Raises
    :class:`UsageError` for a name in ``only`` that the sources do not have."""
    live = [(directory, each) for directory in sources for each in directory.partitions if not _is_metadata(each)]
    unknown = sorted(set(only) - {name for _, each in live for name in _names(each)})
    if unknown and sources:
        raise UsageError(f"there is no topic or partition {unknown[0]} in the source; give one that is there")
    left_out = [each for _, each in live if each.path not in claimed]
    for directory in sources:
        chosen = [each for each in directory.partitions if each.path in claimed]
        for place in other_places(directory, chosen):
            if not _is_metadata(place.partition) and (not only or set(only) & set(_names(place.partition))):
                for finding in _check(place, erasure):
                    report(finding)
    return ProofScope(len(live), len(left_out), tuple(only))


def _check(place: OtherPlace, erasure: Erasure | None) -> Iterator[Finding]:
    if erasure is None:
        if place.is_live:
            text = (
                "this partition of the source is not in the manifest; whether selected records are in it is not known"
            )
            yield Kind.OUTSIDE_OF_PROOF.at(place.path, text, severity="warning")
        return
    found: list[Finding] = []
    selected = count_selected(place.partition, erasure, report=found.append)
    if place.is_live:
        yield from found
    if selected:
        records = count_of(selected, "selected record")
        if place.is_live:
            yield selected_outside(place.path, selected, "of the source")
        else:
            yield Kind.COPY_IN_SOURCE.at(place.path, f"{records}: {place.what}")


def selected_outside(path: str, selected: int, of: str, offset: int | None = None) -> Finding:
    """Return the finding about selected records in a partition that a manifest does not have. ``of``: what it is of."""
    text = f"{count_of(selected, 'selected record')}: this partition {of} is not in the manifest, and nothing is proved"
    return Kind.OUTSIDE_OF_PROOF.at(path, f"{text} of it", severity="error", offset=offset)


def _is_metadata(partition: PartitionPath) -> bool:
    return partition.topic == names.CLUSTER_METADATA


def _names(partition: PartitionPath) -> Iterable[str]:
    topic = partition.topic
    return () if topic is None else (topic, names.partition_directory(topic, partition.partition or 0))
