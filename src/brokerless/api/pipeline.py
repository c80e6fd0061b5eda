"""What :func:`brokerless.pipeline` does: one run of a pipeline, and where its tables end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from brokerless.findings import Finding
from brokerless.progress import Report
from brokerless.requests.options import check_options
from brokerless.requests.writing import ExportRequest, PipelineRequest

if TYPE_CHECKING:
    from brokerless.jobs.pipeline.job import PipelineRun
    from brokerless.jobs.pipeline.settings import Settings
    from brokerless.requests.option_types import Spark


def pipeline(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    to: str | os.PathLike[str] | None = None,
    *,
    settings: str | os.PathLike[str] | None = None,
    on_finding: Report | None = None,
    spark: Spark = "none",
    **options: Any,
) -> PipelineRun:
    """Run a pipeline once, as ``brokerless pipeline``: what is new is verified and exported to tables.

    A run over nothing new takes as long as listing the files.

    Parameters
    ----------
    path : path or iterable of paths
        Log directories.
    to : path or URL, optional
        The directory of the tables.
    settings : path, optional
        A YAML file; what is given here comes first.
    on_finding : callable, optional
        Called with each finding that no run has found before.
    spark : str, SparkSession or SparkContext, default "none"
        A session to run on, or a master for which one is started.
    **options
        ``as_``, ``decode`` and ``catalog`` as :meth:`Log.export` takes them; other settings of a pipeline, such as
        ``topic=["click*"]``, ``isolation="read_committed"`` or ``storage_options={...}``; ``key_pairs``, ``layout``
        and ``remote`` as :func:`open` takes them.

    Returns
    -------
    PipelineRun
        ``exported`` (by partition), ``findings``, ``ranges`` (damaged ones), ``seconds`` (by stage) and ``pages``.

    Raises
    ------
    UsageError
        For wrong settings.
    UnreadableError, UnwritableError
        Where the system does not read or write.
    """
    from brokerless.jobs.pipeline.job import run_pipeline

    request = PipelineRequest(path, to, settings=settings, on_finding=on_finding, spark=spark)

    def report(finding: Finding) -> None:
        if request.on_finding is not None:
            request.on_finding(finding)

    return run_pipeline(_settings(request, options), report, spark=request.spark)


def next_offsets(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    to: str | os.PathLike[str] | None = None,
    *,
    settings: str | os.PathLike[str] | None = None,
    **options: Any,
) -> str:
    """Return where the tables of a pipeline end, for a stream that continues there.

    Parameters
    ----------
    path, to, settings, **options
        As :func:`pipeline` takes them; nothing is run.

    Returns
    -------
    str
        JSON, as the option ``startingOffsets`` of Spark's ``brokerless`` and ``kafka`` formats takes it.

    Raises
    ------
    UsageError, UnreadableError
        As for :func:`pipeline`.
    """
    from brokerless.jobs.pipeline import tables
    from brokerless.jobs.pipeline.sources import find_log_directories, select_copies

    own = _settings(PipelineRequest(path, to, settings=settings), options)
    copies = select_copies(find_log_directories(own), own)
    return json.dumps(tables.next_offsets(own, [each[0] for each in copies.values()]))


def _settings(request: PipelineRequest, options: Mapping[str, Any]) -> Settings:
    from brokerless.jobs.pipeline.settings import load_settings, make_settings

    paths = [request.path] if isinstance(request.path, str | os.PathLike) else list(request.path)
    found = {} if request.settings is None else load_settings(os.fspath(request.settings))
    found |= {"paths": tuple(os.fspath(each) for each in paths)} if paths else {}
    found |= {} if request.to is None else {"to": os.fspath(request.to)}
    return make_settings({**found, **_fields(options)})


_NAMES = {"as_": "form", "decode": "decoding"}
"""Options that are called as those of ``export``, and the fields of the settings."""


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of settings that options set."""
    from brokerless.log.tiered.options import tiered_options
    from brokerless.table_formats.catalog import Catalog
    from brokerless.typed.topic_type import decoding_of

    found = {_NAMES.get(name, name): each for name, each in check_options(ExportRequest, options).items()}
    if "decoding" in found:
        found["decoding"] = decoding_of(found["decoding"])
    if not isinstance(found.get("catalog", Catalog()), Catalog):
        found["catalog"] = Catalog(found["catalog"])
    tiered = found.pop("key_pairs", None), found.pop("layout", None), found.pop("remote", None)
    if any(each is not None for each in tiered):
        storage, (key_pairs, layout, remote) = found.get("storage_options") or {}, tiered
        found["storage_options"] = tiered_options(storage, key_pairs or {}, layout, remote)
    for name in ("topic", "exclude"):
        if isinstance(found.get(name), str):
            found[name] = (found[name],)
    return found
