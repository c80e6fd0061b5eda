"""Erases records, as a method of a log, and checks the manifest of an erasure
(``brokerless.prove``)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from brokerless.api.jobs import bound
from brokerless.errors import UsageError
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.tables.arguments import checked

if TYPE_CHECKING:
    from brokerless.jobs.erase.erased_logs import ErasedLogs
    from brokerless.jobs.erase.selection import Selection
    from brokerless.jobs.prove.job import Proof
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.jobs.run.types import Spark


def erase(
    sources: Sequence[Source],
    to: Location,
    *,
    named: Collection[str],
    keys: Iterable[bytes | str] | None,
    where: str | None,
    header: tuple[str, bytes | str] | None,
    blank: bool,
    blank_fields: Sequence[str],
    schemas: str | os.PathLike[str] | None,
    value_format: str,
    manifest: str | os.PathLike[str] | None,
    sign_key: str | os.PathLike[str] | None,
    dry_run: bool,
    max_batch_bytes: int | None,
    on_damage: Report | None,
    spark: Spark = "none",
) -> ErasedLogs:
    from brokerless.jobs.erase.blanking import blanking_of
    from brokerless.jobs.erase.erased_logs import ErasureRequest, erase_logs
    from brokerless.jobs.erase.job import Erasure
    from brokerless.jobs.erase.key_set import given_keys
    from brokerless.jobs.erase.selection import Selection
    from brokerless.jobs.rewrite.reading import raise_damage
    from brokerless.tables.record_filter import given_header

    if isinstance(blank_fields, str):
        raise UsageError(f"blank_fields: {blank_fields!r} is no list of fields; give [{blank_fields!r}]")
    if blank and blank_fields:
        raise UsageError("blank and blank_fields exclude each other; use one of them")
    own_keys = None if keys is None else given_keys(keys)
    own_header = None if header is None else given_header(header)
    blanking = None
    if blank or blank_fields or schemas is not None or value_format != "auto":
        path = None if schemas is None else os.fspath(schemas)
        partitions = [each for source in sources for each in source.partitions]
        blanking = blanking_of(blank_fields, value_format, path, partitions)
    erasure = Erasure(Selection(own_keys, where, own_header), blanking, bound(max_batch_bytes), dry_run)
    request = ErasureRequest(sources, to, erasure, named, manifest, sign_key)
    results = erase_logs(request, on_damage or raise_damage, spark=spark, processes=1)
    if on_damage is not None:
        for each in results.fields:
            finding = each.finding()
            if finding is not None:
                on_damage(finding)
    return results


@checked
def prove(
    path: str | os.PathLike[str],
    *,
    erased: str | os.PathLike[str] | None = None,
    source: str | os.PathLike[str] | None = None,
    public_key: str | os.PathLike[str] | None = None,
    selection: Selection | None = None,
    keys: Iterable[bytes | str] | None = None,
    where: str | None = None,
    header: tuple[str, bytes | str] | None = None,
    only: Sequence[str] = (),
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    report: Report | None = None,
    done: Done = ignore,
    spark: Spark = "none",
) -> Proof:
    """Check the manifest of an erasure, and the logs that it is about, as ``brokerless prove``.

    Parameters
    ----------
    path : path
        The manifest.
    erased : path or URL, optional
        The directory that ``erase`` wrote, where it was moved since.
    source : path or URL, optional
        The directory that it read, if that is still at hand: then what stayed is compared with it, and erased values
        are searched for.
    public_key : path, optional
        A PEM file with the public key that has to have signed.
    selection : Selection, optional
        What was erased, as one value; instead of ``keys``, ``where`` and ``header``.
    keys, where, header
        What was erased, as :meth:`Log.erase` takes it: then no record may be selected, and keys are searched for.
    only : sequence of str, optional
        Topics and partitions (``orders``, ``orders-0``) of the source that the proof is to be about; without it, a
        selected record in any other partition of the source is an error.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    storage_options : dict, optional
        fsspec's options of ``erased`` and ``source``, where they are URLs.
    report : callable, optional
        Called with each :class:`Finding`.
    done : callable, optional
        Called with the bytes that were read since the last call.
    spark : str, SparkSession or SparkContext, default "none"
        A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
        default this process does it all.

    Returns
    -------
    Proof
        ``holds``, ``signature`` and ``findings``.

    Raises
    ------
    UnreadableError
        For what is no manifest.
    UsageError
        For what is not the erasure's selection, and options that exclude each other.
    """
    from brokerless.jobs.prove.job import Proving
    from brokerless.jobs.prove.job import prove as prove_all

    proving = Proving(
        Location.of(path, storage_options),
        None if erased is None else Location.of(erased, storage_options),
        None if source is None else Location.of(source, storage_options),
        public_key=None if public_key is None else os.fspath(public_key),
        selection=_selection(selection, keys, where, header),
        only=only,
        max_batch_bytes=bound(max_batch_bytes),
    )
    return prove_all(proving, report or ignore, done, spark=spark)


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
