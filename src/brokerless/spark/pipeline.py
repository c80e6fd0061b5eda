"""A pipeline as a Spark application: ``spark-submit .../brokerless/spark/pipeline.py SETTINGS.yaml``.

``python -m brokerless.spark.pipeline SETTINGS.yaml`` is the same where Spark's configuration names a master. Prints the
run's figures as one line of JSON (with ``follow``, of each run with something new), and ends with the exit code of
``brokerless pipeline``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script, its directory would hide modules such as `types` from others
    sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != Path(__file__).resolve().parent]

import json
from collections.abc import Sequence

from brokerless.errors import BrokerlessError
from brokerless.findings import Finding
from brokerless.jobs.pipeline.job import follow, run_pipeline
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
            every_s = settings.follow_s
            if every_s is None:
                runs = iter([run_pipeline(settings, _show, spark=session, say=_say)])
            else:
                runs = follow(settings, every_s, _show, spark=session, say=_say)
            is_clean = True
            for run in runs:
                if every_s is None or run.is_new:
                    print(json.dumps({**run.row(), "started": run.started_ms}), flush=True)
                is_clean = is_clean and not (run.counts["error"] or run.ranges)
        finally:
            session.stop()
    except BrokerlessError as error:
        print(f"brokerless: {error}", file=sys.stderr)
        return 2
    return 0 if is_clean else 1


def _show(finding: Finding) -> None:
    """As ``brokerless pipeline`` does."""
    if finding.severity != "info":
        _say(f"{finding.severity} {finding}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
