"""On a standalone cluster, with a master and two workers, all comes out as on one machine; also if a worker is lost."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.golden import broker_data
from tests.sources import sources_of
from tests.spark.cluster import ROOT, Cluster
from tests.spark.driver import CONVERTING, COPYING

import brokerless
from brokerless.format.convert import ConversionTarget
from brokerless.jobs.convert.job import Conversion, convert, plan

pytestmark = pytest.mark.timeout(900)
NAMES = ("busy-0", "busy-1", "busy-small-0", "busy-txn-0", "busy-gzip-0")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitions of a broker that was killed."""
    directory = tmp_path_factory.mktemp("cluster-data") / "from"
    for name in NAMES:
        shutil.copytree(broker_data("unclean") / name, directory / name)
    return directory


def rows(source: Path) -> list[list[Any]]:
    return [
        [row["topic"], row["partition"], row["offset"], row["value"] and hashlib.md5(row["value"]).hexdigest()]
        for partition in brokerless.open(source).partitions
        for batch in partition.records(["topic", "partition", "offset", "value"], on_damage=print)
        for row in batch.to_pylist()
    ]


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.glob("*-*/*")}


def test_commands_run_on_a_cluster_and_say_the_same(spark_cluster: Cluster, source: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "brokerless", *arguments]
        environment = spark_cluster.environment
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    lines = run("cat", str(source), "--json").stdout.splitlines(keepends=True)
    files = [tmp_path / f"{number}.jsonl" for number in range(3)]  # given as a user does, who is there
    for number, file in enumerate(files):
        file.write_text("".join(lines[len(lines) * number // 3 : len(lines) * (number + 1) // 3]))
    told: list[list[dict[str, Any]]] = []
    for to, master in (("here", "none"), ("there", spark_cluster.master)):
        arguments = ["load", *(file.name for file in files), "--to", to, "--manifest", f"{to}.jsonl"]
        done = run(*arguments, "--spark", master, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        told.append([{**json.loads(line), "sizeInBytes": 0} for line in done.stdout.splitlines()])
        assert run(*arguments).stdout == "nothing is left to do\n"
        noted = json.loads((tmp_path / f"{to}.jsonl").read_text().splitlines()[1])["outputs"]
        assert {each["path"]: each["sha256"] for each in noted} == {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / to).glob("*-*/*")
        }
    assert told[0] == told[1]
    assert rows(tmp_path / "there") == rows(tmp_path / "here") == rows(source)


@dataclass
class Done:
    """What a driver did on a cluster of which a worker was killed while it converted, and another one while it copied.

    ``half_written``: directories of unfinished partitions when the first was killed. ``found``: what it printed.
    """

    to: Path
    half_written: list[Path]
    found: dict[str, Any]


@pytest.fixture(scope="module")
def done(spark_cluster: Cluster, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    directory = tmp_path_factory.mktemp("done")
    command = [sys.executable, "-m", "tests.spark.driver", spark_cluster.master, str(source), str(directory / "to")]
    with subprocess.Popen(
        command, cwd=ROOT, env=spark_cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as driver:

        def wait_for(what: str, count: int) -> list[int]:
            """The Python processes of as many tasks, when they are in the middle."""
            while len(waiting := list(directory.glob(f"{what}-*"))) < count and driver.poll() is None:
                time.sleep(0.02)
            return [int(path.name.rpartition("-")[2]) for path in waiting]

        with ExitStack() as stack:
            stack.callback(driver.kill)
            one, _ = wait_for(CONVERTING, 2)
            half_written = list((directory / "to").glob("*-delete"))
            spark_cluster.kill_worker(spark_cluster.worker_of(one))
            (directory / f"go-on-{CONVERTING}").touch()
            spark_cluster.add_worker("worker-2")
            (one,) = wait_for(COPYING, 1)
            spark_cluster.kill_worker(spark_cluster.worker_of(one))
            (directory / f"go-on-{COPYING}").touch()
            out, err = driver.communicate()
    assert driver.returncode == 0, err.decode()[-3000:]
    return Done(directory / "to", half_written, json.loads(out.splitlines()[-1]))


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(done: Done, source: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    expected = list(convert(plan(sources_of(source), alone, Conversion(ConversionTarget(codec="zstd"))), print))
    assert len(done.half_written) == 2
    assert done.found["read"] == rows(source)
    assert done.found["findings"] == [str(each) for each in brokerless.open(source).verify()]
    assert done.found["converted"] == [
        {**each.as_dict(), "target": (each.as_dict()["target"] or "").replace(str(alone), str(done.to)) or None}
        for each in expected
    ]
    assert any(each.damages for each in expected)
    assert files(done.to) == files(alone)
    assert sorted(path.name for path in done.to.iterdir()) == sorted(path.name for path in alone.iterdir())


def test_frames_and_streams_are_written_although_a_worker_is_killed_in_the_middle(done: Done, source: Path) -> None:
    for name in ("sink", "stream"):
        assert rows(done.to.parent / name) == rows(source)
        assert not [each for each in brokerless.open(done.to.parent / name).verify() if each.severity != "info"]
        assert not list((done.to.parent / name).glob("*-delete"))
