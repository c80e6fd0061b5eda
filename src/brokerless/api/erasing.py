"""Erases records, as a method of a log, and checks the manifest of an erasure
(``brokerless.prove``)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.log.storage.location import Location
from brokerless.progress import ignore
from brokerless.requests.comparing import ProveRequest
from brokerless.requests.options import asks
from brokerless.requests.writing import EraseRequest
from brokerless.tables.read_options import bound

if TYPE_CHECKING:
    from brokerless.jobs.erase.erased_logs import ErasedLogs
    from brokerless.jobs.erase.selection import Selection
    from brokerless.jobs.prove.job import Proof
    from brokerless.jobs.rewrite.plan import Source


def erase(sources: Sequence[Source], request: EraseRequest, named: Collection[str]) -> ErasedLogs:
    from brokerless.jobs.erase.erased_logs import erase_logs
    from brokerless.jobs.rewrite.reading import raise_damage

    on_damage = request.on_damage
    running = RunOptions(spark=request.spark, processes=1)
    results = erase_logs(sources, request, on_damage or raise_damage, named=named, running=running)
    if on_damage is not None:
        for each in results.fields:
            finding = each.finding()
            if finding is not None:
                on_damage(finding)
    return results


@asks(ProveRequest)
def prove(request: ProveRequest) -> Proof:
    """Check the manifest of an erasure, and the logs or the backup that it is about, as ``brokerless prove``.

    Returns
    -------
    Proof
        ``holds``, ``signature`` and ``findings``.

    Raises
    ------
    UnreadableError
        For what is no manifest.
    UsageError
        For another selection than the erasure's, and options that exclude each other.
    """
    from brokerless.jobs.backup_erasure.proof import prove as prove_all
    from brokerless.jobs.prove.job import Proving
    from brokerless.log.tiered.options import load_private_keys

    proving = Proving(
        Location.of(request.path, request.storage_options),
        None if request.erased is None else Location.of(request.erased, request.storage_options),
        None if request.source is None else Location.of(request.source, request.storage_options),
        public_key=None if request.public_key is None else os.fspath(request.public_key),
        selection=_selection(request.selection, request.keys, request.where, request.header),
        only=request.only,
        max_batch_bytes=bound(request.max_batch_bytes),
        keys=load_private_keys(request.key_pairs or {}),
    )
    return prove_all(proving, request.report or ignore, RunOptions(request.done, request.spark, processes=1))


def _selection(
    selection: Selection | None,
    keys: Iterable[bytes | str] | None,
    where: str | None,
    header: tuple[str, bytes | str] | None,
) -> Selection | None:
    from brokerless.jobs.erase.key_set import given_keys
    from brokerless.jobs.erase.selection import Selection
    from brokerless.tables.record_filter import given_header

    if (keys, where, header) == (None, None, None):
        return selection
    if selection is not None:
        raise UsageError("selection excludes keys, where and header; use one of them")
    own_header = None if header is None else given_header(header)
    return Selection(None if keys is None else given_keys(keys), where, own_header)
