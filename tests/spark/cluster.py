"""A Spark standalone cluster on this machine: a master, and workers with one core each, all processes of their own."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from tests.spark.java import class_path, java, spark_home, submit_arguments

ROOT = Path(__file__).parents[2]
_STARTS_WITHIN = 90.0
_MEMORY = "4g"
"""What a worker says that it has."""


class ClusterError(Exception):
    """The cluster did not start; the message has what its processes said."""


@dataclass
class Cluster:
    """``master``: its URL. Workers are killed and added while jobs run."""

    master: str
    directory: Path
    java_options: str
    _status: str
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    def add_worker(self, name: str) -> None:
        """A worker with one core, registered with the master when this returns."""
        before = self.workers()
        options = ("--cores", "1", "--memory", _MEMORY, "--host", "127.0.0.1", "--webui-port", str(free_port()))
        work = self.directory / name
        self.start(name, "worker.Worker", *options, "--work-dir", str(work), self.master)
        self._wait(lambda: self.workers() > before, name)

    @property
    def environment(self) -> dict[str, str]:
        """For a driver: Spark's settings for this cluster, and this Python for its workers."""
        settings = submit_arguments(self.java_options, **{"spark.executor.memory": "512m"})
        return {**os.environ, **settings, "PYSPARK_PYTHON": sys.executable}

    def kill_worker(self, name: str) -> None:
        """Kills a worker and its executors with SIGKILL, as if its machine were gone, until the master knows it."""
        before, process = self.workers(), self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._wait(lambda: self.workers() < before, "master")

    def worker_of(self, pid: int) -> str:
        """The name of the worker that a Python process, of one of its executors, belongs to."""
        session = os.getsid(pid)
        return next(name for name, process in self._processes.items() if process.pid == session)

    def workers(self) -> int:
        """How many the master believes to be alive."""
        with urlopen(self._status, timeout=10) as page:
            return page.read().count(b"ALIVE") - 1  # the master is alive, too

    def start(self, name: str, main: str, *options: str) -> None:
        """In a process group of its own, with all that it starts."""
        flags = (*shlex.split(self.java_options), "-Xmx256m")
        opens = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
        command = [java(), *flags, *opens, "-cp", class_path(), f"org.apache.spark.deploy.{main}", *options]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),  # where the tests' own functions are
        }
        with (self.directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=self.directory, start_new_session=True
            )

    def _wait(self, ready: object, name: str) -> None:
        assert callable(ready)
        until = time.monotonic() + _STARTS_WITHIN
        while True:
            process = self._processes[name]
            try:
                if ready():
                    return
            except OSError:
                pass
            if process.poll() is not None or time.monotonic() > until:
                said = (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]
                raise ClusterError(f"{name} did not start:\n{said}")
            time.sleep(0.1)

    def wait_for_master(self) -> None:
        self._wait(lambda: self.workers() >= 0, "master")

    def stop(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def cluster(directory: Path, java_options: str, workers: int = 2) -> Iterator[Cluster]:
    """Starts a master and workers ``worker-0``, ``worker-1``, ...; all of them end with the context."""
    port, page = free_port(), free_port()
    started = Cluster(f"spark://127.0.0.1:{port}", directory, java_options, f"http://127.0.0.1:{page}")
    with ExitStack() as stack:
        stack.callback(started.stop)
        started.start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
        started.wait_for_master()
        for number in range(workers):
            started.add_worker(f"worker-{number}")
        yield started


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
