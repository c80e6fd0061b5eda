"""A command on Spark whose driver does not live to its end: ``killed_driver.py MOMENT COMMAND...``.

``tasks``: tasks wait for ever as soon as something is written. A number: the driver is killed before that change to the
disk, counted from where it begins to commit.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tests.log.killed_commit import die_before

from brokerless.cli import main
from brokerless.jobs.convert import job as convert_job
from brokerless.jobs.rewrite import run as rewriting
from brokerless.jobs.salvage import job as salvage_job
from brokerless.progress import Done

JOBS: dict[str, Any] = {"convert": convert_job, "salvage": salvage_job}


def run(moment: str, command: list[str]) -> int:
    job = JOBS[command[0]]
    run_task, commit_run = job.run_task, rewriting.commit_run

    def wait_in_the_middle(task: Any, done: Done) -> Any:
        directory = task.directory.local.parent

        def wait(size: int) -> None:
            done(size)
            if not list(task.directory.local.glob("*-delete")):  # a salvage reads all before it writes
                return
            (directory / f"waiting-{os.getpid()}").touch()
            while True:
                time.sleep(0.02)

        return run_task(task, wait)

    def commit_and_die(*arguments: Any) -> Any:
        die_before(int(moment))
        return commit_run(*arguments)

    if moment == "tasks":
        job.run_task = wait_in_the_middle
    else:
        rewriting.commit_run = commit_and_die
    return main(command)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
