"""Oracle: the ``meta.properties`` that brokers wrote, byte for byte."""

from __future__ import annotations

import time
from calendar import timegm
from pathlib import Path

import pytest
from tests.golden import broker_data

from brokerless.errors import UsageError
from brokerless.log.checkpoint.meta_properties import load_meta_properties, meta_properties
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.location import Location


def test_meta_properties_say_which_node_of_which_cluster_it_is() -> None:
    kraft = load_meta_properties(Location(str(broker_data("clean") / "meta.properties")))
    assert (kraft.version, kraft.cluster_id, kraft.node_id) == (1, "AAAAAAAAQACAAAAAAAAAAQ", 1)
    assert kraft.directory_id == "JnctyTyXiAUoM7EFNU1m3g"
    zookeeper = load_meta_properties(Location(str(broker_data("old-formats") / "meta.properties")))
    assert (zookeeper.version, zookeeper.cluster_id, zookeeper.node_id) == (0, "Ap6ckfVFTJCyOxOLtYW-aw", 1)
    assert kraft.findings == zookeeper.findings == ()


@pytest.mark.parametrize(
    "text", ["version=2\n", "version=1\nnode.id=1\n", "version=1\ncluster.id=a\nnode.id=one\n", "version=\n"]
)
def test_meta_properties_that_kafka_refuses_are_a_finding(tmp_path: Path, text: str) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(text)
    read = load_meta_properties(Location(str(path)))
    assert (read.version, read.properties) == (None, {})
    assert [each.kind for each in read.findings] == ["meta-properties-corrupt"]


def test_meta_properties_are_java_properties(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("! a comment\n  node.id : 7\nversion 1\ncluster.id=a\\=b\\:c\n")
    read = load_meta_properties(Location(str(path)))
    assert (read.version, read.node_id, read.cluster_id, read.findings) == (1, 7, "a=b:c", ())


@pytest.mark.parametrize("broker", ["clean", "unclean"])
def test_the_meta_properties_of_a_kraft_node_are_written_byte_for_byte(broker: str) -> None:
    path = broker_data(broker) / "meta.properties"
    read = load_meta_properties(Location(str(path)))
    comment = path.read_text().splitlines()[1]
    written = timegm(time.strptime(comment, "#%a %b %d %H:%M:%S %Z %Y"))
    assert read.cluster_id is not None
    assert read.node_id is not None
    assert meta_properties(read.cluster_id, read.node_id, read.directory_id, written * 1000 + 999) == path.read_bytes()


def test_a_cluster_id_is_escaped_as_java_does_and_one_that_kafka_would_misread_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    write_file(path, meta_properties("#a=b:c\\d!", 7))
    read = load_meta_properties(Location(str(path)))
    assert (read.cluster_id, read.node_id, read.directory_id, read.findings) == ("#a=b:c\\d!", 7, None, ())
    for wrong in ("", "a b", "ünlich", "a\nnode.id=9"):
        with pytest.raises(UsageError):
            meta_properties(wrong, 7)
