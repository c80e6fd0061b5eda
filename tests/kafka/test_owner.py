"""A broker that is another user starts on its log directory after root has written there, with a umask under which
nobody else may read."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from brokerless.cli import main
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import CACHE, command
from tests.require import require

pytestmark = pytest.mark.xdist_group("owner")

DEMO = Path(__file__).parents[2] / "demo" / "data"
USER = 65534
WRITERS = {
    "trim": ["trim", "DATA", "-t", "orders", "--free", "100KB", "--apply"],
    "restore": ["restore", str(DEMO), "-t", "orders", "--to", "DATA", "--replace", "--apply"],
    "rebuild": ["rebuild", "DATA", "--to", "NEW", "--data", "in-place", "--apply"],
    "load": ["load", "RECORDS", "--to", "DATA", "-t", "fresh"],
}
SERVES_WITHIN = 60.0


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def give_to_broker(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
        os.chown(each, USER, USER)


def serves(broker: KafkaBroker, home: Path) -> bool:
    """Whether a broker that runs as the user is reached, or what it printed before it ended."""
    plain = [each for each in command("kafka.Kafka", str(broker.properties)) if "Archive" not in each]
    run = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *plain]
    with (home / "out").open("wb") as out:
        process = subprocess.Popen(run, stdout=out, stderr=out, cwd="/")
    try:
        give_up = time.monotonic() + SERVES_WITHIN
        while time.monotonic() < give_up and process.poll() is None:
            time.sleep(0.2)
            with contextlib.suppress(KafkaException):
                if broker.admin().list_topics(timeout=1).brokers:
                    return True
        pytest.fail((home / "out").read_text(errors="replace")[-2000:])
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_broker_that_is_another_user_starts_after(
    writer: str, kafka_jars: Path, scratch: Path, umask: None, capsys: pytest.CaptureFixture[str]
) -> None:
    require(os.geteuid() == 0, "only root may give files to others")
    require(shutil.which("setpriv"), "setpriv of util-linux runs a program as another user")
    require(all(each.stat().st_mode & 0o005 for each in (CACHE, *CACHE.resolve().parents)), "Kafka is for root alone")
    home = scratch / "home"
    broker = KafkaBroker(home)
    data = broker.log_dir
    shutil.copytree(DEMO, data)
    give_to_broker(data)
    (scratch / "records").write_text('{"partition": 0, "key": "a", "value": "b"}\n')
    places = {"DATA": str(data), "NEW": str(scratch / "new"), "RECORDS": str(scratch / "records")}
    assert main([places.get(word, word) for word in WRITERS[writer]]) in (0, 1), capsys.readouterr().err
    others = [each for each in data.rglob("*") if each.lstat().st_uid != USER or not each.lstat().st_mode & 0o044]
    assert not others
    scratch.chmod(0o755)
    give_to_broker(home)
    for each in others:
        os.chown(each, 0, 0)
    assert serves(broker, home)
