"""What :func:`brokerless.cluster` does: describes the cluster that some disks were of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from brokerless.errors import UsageError
from brokerless.log.directory import resolve

if TYPE_CHECKING:
    from brokerless.jobs.cluster.job import ClusterDescription


def cluster(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str], *, max_batch_bytes: int | None = None
) -> ClusterDescription:
    """Describes the cluster that some log directories were of, as ``brokerless cluster``: give all of them, of all
    nodes. Nothing is changed.

    ``table(name)`` of the result is a table such as ``"topics"`` or ``"nodes"``; ``cluster_id``, ``metadata`` (the
    replica that it was read from) and ``findings`` are the rest. ``max_batch_bytes``: what one batch may inflate to
    (128 MiB). Raises :class:`UnreadableError`, and :class:`UsageError` for what is no log directory.
    """
    from brokerless.jobs.cluster.job import describe_cluster

    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise UsageError("give the log directories of the cluster's nodes")
    return describe_cluster([resolve(os.fspath(each)) for each in given], max_batch_bytes=max_batch_bytes)
