from __future__ import annotations

import atexit
import ctypes
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import tests.golden
from tests import examples, workers
from tests.browser import browser  # noqa: F401 - a fixture, of which there is to be one in a process
from tests.kafka import jars
from tests.require import require
from tests.s3 import s3  # noqa: F401 - a fixture, of which there is to be one in a process

if TYPE_CHECKING:
    from tests.kafka.broker import KafkaBroker

# Spark's Python workers are to be this interpreter; unset, they are whatever ``python3`` is.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
# As the command does: OpenBLAS's threads spin for a tenth of a second in each process that a test starts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# An environment may forbid to keep byte code: then each process compiles all tests, with what their assertions say,
# anew, which takes 15 s.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# What a shell starts in the background ignores Ctrl-C, and below nohup a terminal that is closed; so would all that is
# ended by these in the tests.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _handler)
# A tenth of the time went into pages that glibc returned at each free and faulted in again. Other C libraries lack it.
with suppress(AttributeError, OSError, TypeError):
    _mallopt = ctypes.CDLL(None).mallopt
    _mallopt(_M_MMAP_MAX := -4, 0)
    _mallopt(_M_TRIM_THRESHOLD := -1, 2**31 - 1)

NOT_QUICK = {
    "Spark": ("spark", "quick_spark", "spark_cluster"),
    "Kafka": ("kafka", "kafka_jars"),
    "S3": ("s3",),
    "Chromium": ("browser",),
}
"""Fixtures whose tests ``--quick`` leaves out, by what it says of them."""
SLOW_FILES = {
    "many processes": (
        "test_benchmarks.py", "test_docs.py", "test_kill.py", "test_killed_commands.py", "test_processes.py",
        "test_progress.py", "test_scale.py", "test_shrinking.py", "test_terminal.py", "test_unreadable.py",
    ),
    "very many cases": ("test_bounds.py", "test_log_machine.py", "test_mutations.py", "test_power_loss.py"),
    "gigabytes": ("test_limits.py", "test_sparse.py"),
}  # fmt: skip
"""Files that ``--quick`` leaves out, by the reason; it leaves out single tests that are marked ``slow`` as well."""


@pytest.fixture(scope="session", autouse=True)
def no_sync() -> Iterator[None]:
    """No test waits for the disk: those that ask what a crash of the machine leaves replace ``os.fsync`` themselves.
    Processes that a test starts do wait."""
    together = mock.patch("brokerless.log.storage.guarded_files.sync_file_system", os.fstat)
    with mock.patch("os.fsync", os.fstat), together:  # which refuses a closed file as well
        yield


@pytest.fixture(scope="session")
def golden() -> Path:
    """The unpacked golden archive; not to be written to."""
    return tests.golden.golden()


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Makes a directory that other users reach: pytest closes the directories above its own to them at each start."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The jars of a Kafka broker and its clients; a test with this fixture may use ``tests.kafka.oracle``."""
    from tests.kafka.broker import make_archive_of_broker

    try:
        jars.java()
        jars.compile_helpers()
        make_archive_of_broker(jars.NEWEST)
        return jars.jars()
    except jars.KafkaUnavailableError as error:
        require(False, str(error))
        raise


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running broker that all tests share: take topics of your own, and leave it running."""
    from tests.kafka.broker import KafkaBroker

    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def quick_spark() -> Iterator[str]:
    """Spark sessions start quickly, also those of programs that tests start. Given are options for their Java."""
    from tests.spark.java import java_options, submit_arguments

    options = java_options()
    with mock.patch.dict(os.environ, submit_arguments(options)):
        yield options


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="no Spark, Kafka, S3 or Chromium, and not the slowest tests")
    parser.addoption("--fuzz", action="store_true", help="Hypothesis's tests alone, with random examples (make fuzz)")
    parser.addoption("--all-examples", action="store_true", help="Hypothesis's tests alone, with all their examples")


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("--quick"):
        return None
    slow = "; ".join(f"{reason}: {', '.join(names)}" for reason, names in SLOW_FILES.items())
    return f"--quick leaves out tests of {', '.join(NOT_QUICK)}; those marked slow; {slow}"


def pytest_configure(config: pytest.Config) -> None:
    is_random = config.getoption("--fuzz")
    examples.set_up(1 if is_random or config.getoption("--all-examples") else 4, is_random)
    config.addinivalue_line("markers", "slow(reason): takes long, so that --quick leaves it out")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = [item for item in items if _is_left_out(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(item)]
    if config.getoption("--fuzz") or config.getoption("--all-examples"):
        fixed = [item for item in items if not _has_examples(item)]
        config.hook.pytest_deselected(items=fixed)
        items[:] = [item for item in items if _has_examples(item)]
    workers.group_and_sort(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> workers.Units | None:
    return workers.Units(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Closes the files of objects that wait to be collected, which is seldom (see below): those of S3's clients above
    all, of which each of Iceberg's tables has its own."""
    unused = os.open(os.devnull, os.O_RDONLY)
    os.close(unused)
    if unused > 200:
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported for the tests is no garbage, and to look for it takes a fourth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Objects that exist by now, mostly Numba's, are left out of garbage collection, and it runs seldom: it took
    a tenth of the time. And jars that will be needed are fetched while the first tests run."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # or libraries say at exit what of theirs is left
    gc.set_threshold(100_000, 20, 100)
    if any("kafka_jars" in getattr(item, "fixturenames", ()) for item in session.items):
        for version in (jars.NEWEST, jars.OLD_FORMATS):
            Thread(target=_fetch, args=(version,), name=f"fetch-{version}").start()


def _fetch(version: str) -> None:
    with suppress(jars.KafkaUnavailableError):  # which the first test that needs them reports
        jars.jars(version)


def _has_examples(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


def _is_left_out(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    is_slow = any(item.path.name in names for names in SLOW_FILES.values()) or item.path.parent.name == "kafka"
    is_slow = is_slow or item.get_closest_marker("slow") is not None
    return is_slow or any(name in names for of in NOT_QUICK.values() for name in of)
