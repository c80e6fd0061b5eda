"""A pipeline as a Spark application: ``spark-submit .../brokerless/spark/pipeline.py SETTINGS.yaml``.

``python -m brokerless.spark.pipeline SETTINGS.yaml`` is the same where Spark's configuration names a master. Prints the
run's figures as one line of JSON, and ends with the exit code of ``brokerless pipeline``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script, its directory would hide modules such as `types` from others
    sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != Path(__file__).resolve().parent]

import json
from collections.abc import Sequence

from brokerless.errors import BrokerlessError
from brokerless.jobs.pipeline.job import run_pipeline
from brokerless.jobs.pipeline.settings import load_settings, make_settings

USAGE = "usage: spark-submit pipeline.py SETTINGS.yaml"


def main(arguments: Sequence[str]) -> int:
    """Runs the pipeline of a file of settings on the session that is there, or that the configuration names."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        settings = make_settings(load_settings(arguments[0]))
        from pyspark.sql import SparkSession

        session = SparkSession.builder.appName("brokerless pipeline").getOrCreate()
        try:
            run = run_pipeline(settings, _print, spark=session, say=_print)
        finally:
            session.stop()
    except BrokerlessError as error:
        print(f"brokerless: {error}", file=sys.stderr)
        return 2
    print(json.dumps({**run.row(), "started": run.started_ms}))
    return 1 if run.counts["error"] or run.ranges else 0


def _print(line: object) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
