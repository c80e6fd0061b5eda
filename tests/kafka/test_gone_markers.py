"""A real broker and its consumers on logs without the marker of an aborted transaction: with the index that knows of
it, with that index rebuilt, and with logs that brokerless wrote of them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless.clusters.start.effects import partition_effects
from brokerless.log import names
from tests.kafka import recorded_starts
from tests.kafka.broker import KafkaBroker
from tests.kafka.gone_markers import TOPICS, ask, create_topics, damaged
from tests.kafka.jars import NEWEST
from tests.log.producer.gone_marker_logs import CONSUMED, INDEXED, committed, consumed, log_directory

pytestmark = pytest.mark.xdist_group("restart")


RECORDED = f"gone-markers-{NEWEST}"


def asked(start: str, log_dir: Path, root: Path) -> dict[str, Any]:
    """What consumers get of the topics of a log directory after a start."""
    known_by = digest(log_dir)
    line = recorded_starts.lines(RECORDED).get(known_by)
    if line is not None:
        return line["answers"]
    recorded_starts.warn([f"gone markers, {start}"])
    return ask_anew(log_dir, root)


def digest(log_dir: Path) -> str:
    partitions = [log_dir / f"{topic}-0" for topic in TOPICS]
    return recorded_starts.digest(NEWEST, f"clean: {was_clean(log_dir)}", partitions)


def was_clean(log_dir: Path) -> bool:
    return (log_dir / names.CLEAN_SHUTDOWN).exists()


def ask_anew(log_dir: Path, root: Path) -> dict[str, Any]:
    """Starts a broker whose topics have these files."""
    broker = KafkaBroker(root)
    with broker:
        create_topics(broker)
    for topic in TOPICS:
        target = broker.log_dir / f"{topic}-0"
        own = (target / names.PARTITION_METADATA).read_bytes()
        shutil.rmtree(target)
        shutil.copytree(log_dir / f"{topic}-0", target)
        (target / names.PARTITION_METADATA).write_bytes(own)
    if not was_clean(log_dir):
        for name in (names.CLEAN_SHUTDOWN, names.RECOVERY_POINT_CHECKPOINT):
            (broker.log_dir / name).unlink()
    with broker:
        return ask(broker)


def record_starts() -> None:
    with tempfile.TemporaryDirectory() as directory:
        log_dirs = made(Path(directory))
        lines = [
            {"name": name, "digest": digest(log_dir), "answers": ask_anew(log_dir, Path(directory) / f"broker-{name}")}
            for name, log_dir in log_dirs.items()
        ]
    recorded_starts.write_lines(RECORDED, lines)


def made(root: Path) -> dict[str, Path]:
    """Log directories after a clean stop, with logs that salvage wrote of these, and after an unclean stop."""
    if recorded_starts.ASK_ALWAYS:
        clean = damaged(root / "broker").log_dir
        unclean = Path(shutil.copytree(clean, root / "unclean"))
        for name in (names.CLEAN_SHUTDOWN, names.RECOVERY_POINT_CHECKPOINT):
            (unclean / name).unlink()
    else:
        clean, unclean = log_directory(root / "clean"), log_directory(root / "unclean", was_clean=False)
    written = Path(shutil.copytree(clean, root / "written"))
    for topic in INDEXED:
        shutil.rmtree(written / f"{topic}-0")
        brokerless.open(clean / f"{topic}-0").salvage(written)
    return {"clean": clean, "written": written, "unclean": unclean}


def exposed(log_dir: Path) -> set[str]:
    log = brokerless.open(log_dir)
    return {
        topic
        for topic in TOPICS
        for each in partition_effects(log.partition(topic, 0).restart().partitions[0])
        if each.kind == "aborted-exposed"
    }


def test_consumers_get_what_the_index_says_until_it_is_rebuilt(kafka_jars: Path, tmp_path: Path) -> None:
    log_dirs = made(tmp_path)
    assert exposed(log_dirs["clean"]) == {"segment"}
    for topic in TOPICS:
        assert committed(log_dirs["clean"], topic)[0] == consumed(topic)
    assert exposed(log_dirs["unclean"]) == {*TOPICS}
    answers = {name: asked(name, log_dir, tmp_path / f"broker-{name}") for name, log_dir in log_dirs.items()}
    for start in ("clean", "unclean"):
        assert answers[start] == {topic: CONSUMED[start][topic] for topic in TOPICS}
    for topic in INDEXED:
        found = answers["written"][topic]
        assert found["kafka"] == found["librdkafka"]
        assert sorted({*found["kafka"], *found["kafka_after_marker"]}) == consumed(topic)
