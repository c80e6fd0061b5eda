"""What :func:`brokerless.pipeline` does: one run of a pipeline, by settings or by a file of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from brokerless.errors import Finding
from brokerless.tables.partition_reader import OnDamage

if TYPE_CHECKING:
    from brokerless.jobs.pipeline.job import PipelineRun
    from brokerless.jobs.run.types import Spark


def pipeline(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    to: str | os.PathLike[str] | None = None,
    *,
    settings: str | os.PathLike[str] | None = None,
    on_finding: OnDamage | None = None,
    spark: Spark = "none",
    **options: Any,
) -> PipelineRun:
    """Runs a pipeline once, as ``brokerless pipeline``: what is new in ``path`` (or several) is verified and exported
    to tables below ``to``. A run over nothing new takes as long as listing the files.

    ``settings``: a YAML file; what is given here comes first. ``options``: other fields of
    :class:`brokerless.jobs.pipeline.settings.Settings`, such as ``topic=("click*",)``, ``isolation="read_committed"``,
    ``decoding=Decoding()`` or ``storage_options={...}``. ``on_finding`` is called with each finding that no run has
    found before. ``spark``: a session (or SparkContext) to run on, or a master for which one is started.

    The result has ``exported`` (by partition), ``findings``, ``ranges`` (damaged ones), ``seconds`` (by stage) and
    ``pages``. Raises :class:`UsageError` for wrong settings, :class:`UnreadableError` and :class:`UnwritableError`.
    """
    from brokerless.jobs.pipeline.job import run_pipeline
    from brokerless.jobs.pipeline.settings import load_settings, make_settings

    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    found = {} if settings is None else load_settings(os.fspath(settings))
    found |= {"paths": tuple(os.fspath(each) for each in given)} if given else {}
    found |= {} if to is None else {"to": os.fspath(to)}

    def report(finding: Finding) -> None:
        if on_finding is not None:
            on_finding(finding)

    return run_pipeline(make_settings(found | options), report, spark=spark)
