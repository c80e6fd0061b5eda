"""Requests of backups: what stores a cluster's disks, and what is done with the snapshots."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from brokerless.log.names import Include
from brokerless.log.storage.paths import StorageOptions
from brokerless.progress import Done, ignore
from brokerless.requests import shared
from brokerless.requests.option_types import (
    AMOUNT_OR_ALL,
    COUNT,
    DIRECTORY,
    FLAG,
    HOURS,
    KEY_PAIRS,
    NAME_LIST,
    PATH,
    PATHS,
    SIZE,
    TEXT,
    Paths,
    Spark,
)
from brokerless.requests.options import Option, given, request
from brokerless.requests.writing import ERASURE_MANIFEST, HEADER_TO_ERASE, KEYS_TO_ERASE, SIGN_KEY, WHERE_TO_ERASE

TRUST = Option(
    PATHS,
    "a public key (Ed25519, PEM) of those by which snapshots have to be signed; can be repeated",
    "FILE",
    flag="--trust",
    is_repeated=True,
)


@request
class BackupRequest:
    paths: Paths = given(shared.PATHS, kw_only=False)
    to: str | os.PathLike[str] = given(shared.TO, kw_only=False)
    topics: Collection[str] | None = given(shared.TOPICS, default=None)
    name: str | None = given(TEXT, "a name of the snapshot, by which it is read as URL@NAME", "NAME", default=None)
    leader_only: bool = given(
        FLAG, "store what the node of these disks leads, as one host of several; needs --set", default=False
    )
    set_name: str | None = given(
        TEXT,
        "the set of runs, one on each host of a broker, that are read as one snapshot of this name when all are there",
        "NAME",
        flag="--set",
        default=None,
    )
    public_keys: Mapping[str, str | os.PathLike[str]] | None = given(
        KEY_PAIRS,
        "encrypt all that is stored, for this key pair: its public key (RSA, PEM), by the pair's name; repeat it",
        flag="--public-key",
        is_repeated=True,
        default=None,
    )
    one_key: bool = given(
        FLAG, "accept a single --public-key: if its private key is lost, nobody reads the backup again", default=False
    )
    compress: bool = given(FLAG, "compress (zstd) segments whose first batch is not compressed", default=False)
    sign_key: str | os.PathLike[str] | None = given(
        PATH, "sign the snapshot with this Ed25519 key (PEM; needs the extra erase), for --trust", default=None
    )
    rate: int | None = given(
        SIZE,
        "read at most so many bytes a second, in one process, so that brokers on these disks are not disturbed",
        default=None,
    )
    spark: Spark = given(shared.SPARK, default="none")
    segment_size: int | None = given(SIZE, "bytes at which stored segments end (default: 256MiB)", default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    include: Collection[Include] | Include = given(shared.INCLUDE, default=())
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)
    remote: Paths | None = given(PATHS, "the bucket with the remote segments of tiered topics", flag=None, default=None)
    done: Done = given(shared.DONE, default=ignore)


@request
class CheckRequest:
    read: int | Literal["all"] | None = given(
        AMOUNT_OR_ALL,
        "read all objects and compare their bytes, or so many bytes of them, as 50GB: those that were read longest ago "
        "first, so that runs take turns",
        default=None,
        kw_only=False,
    )
    seal: str | os.PathLike[str] | None = given(
        PATH, "a file that snapshots --seal wrote: what was sealed has to be there", default=None
    )
    trust: Paths = given(TRUST, default=())
    rate: int | None = given(SIZE, "read at most so many bytes a second, in one process", default=None)
    spark: Spark = given(shared.SPARK, default="none")
    done: Done = given(shared.DONE, default=ignore)


@request
class SealRequest:
    seal: str | os.PathLike[str] | None = given(
        PATH,
        "write the snapshots, their lists of segments and signatures to this file, to keep it elsewhere; check --seal "
        "compares with it",
        default=None,
        kw_only=False,
    )


@request
class JoinRequest:
    join: str | None = given(
        TEXT,
        "make a snapshot of the parts of this set (backup --set) that are there, without those of other hosts",
        "SET",
        default=None,
        kw_only=False,
    )


@request
class DrillRequest:
    topics: Collection[str] | None = given(shared.TOPICS, default=None)
    spread: bool = given(shared.SPREAD, default=False)
    scratch: str | os.PathLike[str] | None = given(
        DIRECTORY,
        "where the cluster is rebuilt, and left (default: a directory in TMPDIR, which is removed)",
        default=None,
    )
    start: str | os.PathLike[str] | None = given(
        DIRECTORY,
        "also start a broker of this Kafka (with bin and libs; needs Java, and the extra restore) on what was rebuilt, "
        "on the loopback, and compare what a consumer gets",
        default=None,
    )
    evidence: str | os.PathLike[str] | None = given(
        PATH, "also write what was tried and found to this file, as JSON", default=None
    )
    sign_key: str | os.PathLike[str] | None = given(
        PATH, "sign the evidence with this Ed25519 key (PEM; needs the extra erase): FILE.sig beside it", default=None
    )
    record: bool = given(
        FLAG, "also write the evidence into the backup (.brokerless/drills), for forget --keep-drilled", default=False
    )
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)
    done: Done = given(shared.DONE, default=ignore)


@request
class ForgetRequest:
    keep_last: int = given(COUNT, "keep the last N snapshots", default=0)
    keep_hourly: int = given(COUNT, "keep the newest snapshot of each of the last N hours that have one", default=0)
    keep_daily: int = given(COUNT, "keep the newest snapshot of each of the last N days that have one", default=0)
    keep_weekly: int = given(COUNT, "keep the newest snapshot of each of the last N weeks that have one", default=0)
    keep_monthly: int = given(COUNT, "keep the newest snapshot of each of the last N months that have one", default=0)
    keep_yearly: int = given(COUNT, "keep the newest snapshot of each of the last N years that have one", default=0)
    keep_drilled: int = given(
        COUNT, "keep the last N snapshots that passed a drill of all partitions (drill --record)", default=0
    )
    keep_within: int = given(COUNT, "keep all snapshots that are not older than so many days", "DAYS", default=0)
    trust: Paths = given(TRUST, default=())
    apply: bool = given(FLAG, "forget the snapshots; without it, nothing is changed", default=False)


@request
class PruneRequest:
    grace: int = given(
        HOURS,
        "hours for which objects stay that no snapshot names (default: 48); 0 only while nothing else runs",
        default=48,
    )
    apply: bool = given(FLAG, "remove the objects; without it, nothing is changed", default=False)


@request
class KeysRequest:
    add: Mapping[str, str | os.PathLike[str]] | None = given(
        KEY_PAIRS,
        "a key pair that reads the backup as well: its public key (RSA, PEM); can be repeated",
        is_repeated=True,
        default=None,
    )
    remove: Collection[str] = given(
        NAME_LIST, "a key pair that no longer reads the backup; can be repeated", "ID", is_repeated=True, default=()
    )
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)


@request
class BackupErasureRequest:
    keys: Iterable[bytes | str] | None = given(KEYS_TO_ERASE, default=None)
    where: str | None = given(WHERE_TO_ERASE, default=None)
    header: tuple[str, bytes | str] | None = given(HEADER_TO_ERASE, default=None)
    topics: Collection[str] | None = given(shared.TOPICS, default=None)
    manifest: str | os.PathLike[str] | None = given(ERASURE_MANIFEST, default=None)
    sign_key: str | os.PathLike[str] | None = given(SIGN_KEY, default=None)
    apply: bool = given(FLAG, "erase the records of a backup; without it, they are only counted", default=False)
    max_batch_bytes: int | None = given(shared.MAX_BATCH_BYTES, default=None)
    spark: Spark = given(shared.SPARK, default="none")
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = given(shared.KEY_PAIR, default=None)
    done: Done = given(shared.DONE, default=ignore)
