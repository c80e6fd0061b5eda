"""Requests of what compares logs: two, the replicas of one cluster, or a log with the manifest of an erasure."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from brokerless.log.storage.paths import StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.requests import shared
from brokerless.requests.option_types import (
    AMOUNT,
    CAUSES,
    CLIENT_CONFIG,
    DIRECTORY,
    FLAG,
    HEADER,
    KEYS,
    LIMIT,
    NAME_LIST,
    PARTS,
    PATH,
    SELECTION,
    SIDE,
    TEXT,
    URL,
    OpenedLog,
    Spark,
    one_of,
)
from brokerless.requests.options import Option, given, request

ALLOW = Option(CAUSES, "causes by which the logs may differ, as lagging,extra")
LISTED = Option(LIMIT, "how many differences of a partition are listed (default: 10); all are counted")
SHOW_KEYS = Option(FLAG, "list differences with the keys of their records")
QUICK = Option(
    FLAG,
    "take batches with the same headers (offsets, checksum, size, producer) for the same, and do not read them: damage "
    "in them is not found",
)


@request
class DiffRequest:
    left: str | os.PathLike[str] | OpenedLog | Iterable[str | os.PathLike[str] | OpenedLog] = given(
        SIDE,
        "one side: a log, or the disks of one cluster. Of several replicas of a partition, the one with the greatest "
        "leader epoch is compared, and of these the longest",
        flag=None,
        kw_only=False,
    )
    right: str | os.PathLike[str] | OpenedLog | Iterable[str | os.PathLike[str] | OpenedLog] = given(
        SIDE, "the other side", flag=None, kw_only=False
    )
    topics: Collection[str] | None = given(
        NAME_LIST,
        "only these topics, by names or patterns (click*). Kafka's own topics are compared only if they are named "
        "here, or are a side themselves",
        flag=None,
        default=None,
    )
    only: Collection[str] = given(
        PARTS,
        "compare only these, as groups,acls: records, groups, settings, topics, acls, users, quotas (default: all that "
        "both sides have)",
        default=(),
    )
    align: Literal["offset", "key"] = given(
        one_of("offset", "key"),
        "how records are paired: by their offsets in partitions of one number, or by their keys, times and contents "
        "within a topic, where its partitions or offsets are others",
        default="offset",
    )
    config: Mapping[str, str] | str | os.PathLike[str] | None = given(
        CLIENT_CONFIG,
        "for a side kafka://HOST:PORT: a properties file with a client's settings (security.protocol, ...)",
        flag="--command-config",
        default=None,
    )
    allow: Collection[str] = given(ALLOW, default=())
    limit: int | None = given(LISTED, default=10)
    show_keys: bool = given(SHOW_KEYS, default=False)
    quick: bool = given(QUICK, default=False)
    offset_map: str | os.PathLike[str] | None = given(
        PATH,
        "the offset map of a restore whose target is the right side: partitions and groups' positions are compared by "
        "it",
        "DIRECTORY",
        default=None,
    )
    offset_syncs: str | os.PathLike[str] | None = given(
        PATH,
        "the topic mm2-offset-syncs.ALIAS.internal of MirrorMaker 2, or the log directory that has it. The right side "
        "is then a mirror of the left one, and records are compared in their order",
        "PATH",
        default=None,
    )
    schemas: str | os.PathLike[str] | None = given(
        URL,
        "where the schemas of both sides are, and those of a decoded table, as for decoding: a log directory with the "
        "topic _schemas, JSON Lines of "
        "that topic, or a directory of .avsc, .proto and .json files (default: the topic _schemas of each side)",
        "PATH",
        default=None,
    )
    right_schemas: str | os.PathLike[str] | None = given(
        URL,
        "where those of the right side are, if it has a registry of its own (default: the topic _schemas of that side, "
        "else where --schemas says)",
        "PATH",
        default=None,
    )
    key_format: str | None = given(
        TEXT,
        "of a decoded Parquet export on one side: the format that export was given for keys (default: auto); tables of "
        "Iceberg and Delta say it",
        "FORMAT",
        default=None,
    )
    value_format: str | None = given(TEXT, "the same for values", "FORMAT", default=None)
    erasure: str | os.PathLike[str] | None = given(
        PATH,
        "the manifest of an erasure whose source is the left side, and whose output the right one: what it accounts "
        "for is erased, and no difference",
        "MANIFEST",
        default=None,
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(shared.ON_FINDING, default=None)
    done: Done = given(shared.DONE, default=ignore)
    spark: Spark = given(shared.SPARK, default="none")


@request
class ReplicasRequest:
    disks: Iterable[str | os.PathLike[str] | OpenedLog] = given(
        SIDE, "the disks of one cluster, or as many as there are", flag=None, kw_only=False
    )
    topics: Collection[str] | None = given(shared.TOPICS, default=None)
    budget: int | None = given(
        AMOUNT, "compare at most so many bytes in this run, as 50GB; needs --state", default=None
    )
    state: str | os.PathLike[str] | None = given(
        DIRECTORY,
        "directory that records what was compared when, for --budget; not within a log directory",
        default=None,
    )
    allow: Collection[str] = given(ALLOW, default=())
    limit: int | None = given(LISTED, default=10)
    show_keys: bool = given(SHOW_KEYS, default=False)
    quick: bool = given(QUICK, default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    on_damage: Report | None = given(shared.ON_FINDING, default=None)
    done: Done = given(shared.DONE, default=ignore)
    spark: Spark = given(shared.SPARK, default="none")


@request
class ProveRequest:
    path: str | os.PathLike[str] = given(PATH, "the file that erase wrote", flag=None, kw_only=False)
    erased: str | os.PathLike[str] | None = given(
        URL, "where the erased logs are now (default: where the manifest says)", default=None
    )
    source: str | os.PathLike[str] | None = given(
        URL,
        "the logs before the erasure, if they are still there: what stayed is compared with them, and erased values "
        "are searched for",
        default=None,
    )
    public_key: str | os.PathLike[str] | None = given(
        PATH, "the public key (PEM) by which the manifest has to be signed", default=None
    )
    selection: Any = given(
        SELECTION, "what was erased, as one value; not with keys, where or header", flag=None, default=None
    )
    keys: Iterable[bytes | str] | None = given(
        KEYS, "the keys that were erased: no record may have one, and they are searched for", flag=None, default=None
    )
    where: str | None = given(TEXT, "the condition of the erasure", "SQL", default=None)
    header: tuple[str, bytes | str] | None = given(HEADER, "the header of the erasure", flag=None, default=None)
    only: Sequence[str] = given(
        NAME_LIST,
        "a topic or partition (orders, orders-0) to which the proof is limited. By default, all of the source is "
        "checked, and a selected record outside of the manifest's partitions is an error; can be repeated",
        is_repeated=True,
        default=(),
    )
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    report: Report | None = given(shared.ON_FINDING, default=None)
    done: Done = given(shared.DONE, default=ignore)
    spark: Spark = given(shared.SPARK, default="none")
