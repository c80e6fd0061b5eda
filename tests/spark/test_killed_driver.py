"""A job on Spark whose driver is killed shows nothing half, and is run again as if it had never begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.golden import broker_data
from tests.spark.cluster import ROOT

import brokerless
from brokerless.cli import main
from brokerless.errors import UnreadableError
from brokerless.log import names

pytestmark = pytest.mark.timeout(300)
NAMES = ("segments-0", "txn-0", "edges-0")
COMMANDS = {"convert": ["--codec", "zstd"], "salvage": []}
CHECKPOINTS = (*names.OFFSET_CHECKPOINTS, names.COMMIT_LOCK)
"""Their lines are in the order in which partitions were done."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / "from" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "from" / name).symlink_to(broker_data("clean") / name)
    return tmp_path / "from"


def contents(directory: Path) -> dict[str, bytes | set[bytes] | None]:
    return {
        str(path.relative_to(directory)): None
        if path.is_dir()
        else set(path.read_bytes().splitlines())
        if path.name in CHECKPOINTS
        else path.read_bytes()
        for path in directory.rglob("*")
        if path.name != names.COMMIT_LOCK
    }


def visible(directory: Path) -> set[str]:
    try:
        return {Path(each.path).name for each in brokerless.open(directory).partitions}
    except UnreadableError:
        return set()


def kill_driver(moment: str, command: list[str], directory: Path) -> None:
    """Runs it on Spark until it is killed; all of its processes are gone then."""
    line = [sys.executable, "-m", "tests.spark.killed_driver", moment, *command, "--spark", "local[2,1]"]
    with subprocess.Popen(line, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE) as driver:
        until = time.monotonic() + 120
        while moment == "tasks" and not list(directory.glob("waiting-*")):
            assert driver.poll() is None, driver.communicate()[1].decode()[-3000:]
            assert time.monotonic() < until
            time.sleep(0.02)
        if moment == "tasks":
            driver.kill()
        _, told = driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL, told.decode()[-3000:]
    while is_there(driver.pid):
        assert time.monotonic() < until, "a process of the job is still there"
        time.sleep(0.05)


def is_there(process_group: int) -> bool:
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("name", "moment"), [("convert", "tasks"), ("convert", "9"), ("salvage", "tasks")])
def test_a_driver_that_is_killed_leaves_nothing_half_and_the_job_is_run_again(
    name: str, moment: str, source: Path, quick_spark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, to = tmp_path / "whole", tmp_path / "there" / "to"
    to.parent.mkdir()
    assert main([name, str(source), "--to", str(whole), *COMMANDS[name]]) == 0
    command = [name, str(source), "--to", str(to), *COMMANDS[name]]

    kill_driver(moment, command, to.parent)
    staged = [path.name for path in to.glob("*-delete")]
    is_committing = (to / names.COMMIT_JOURNAL).exists()
    assert visible(to) in (set(), set(NAMES))
    assert staged or is_committing
    code, told = run_again(command, is_on_spark=(name, moment) == ("convert", "tasks"), capsys=capsys)

    # What was being committed when it was killed, the next run has completed.
    assert code == 0 or (is_committing and "exists already" in told), told
    assert contents(to) == contents(whole)


def run_again(command: list[str], is_on_spark: bool, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and standard error; a session more costs seconds, so that one of the commands has one."""
    if not is_on_spark:
        capsys.readouterr()
        return main(command), capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "brokerless", *command, "--spark", "local[2]"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr
