"""The request of what answers Kafka clients."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from brokerless.log.names import Include
from brokerless.log.storage.paths import StorageOptions
from brokerless.progress import Report
from brokerless.requests import shared
from brokerless.requests.option_types import FLAG, NAME_LIST, NAMES, PATH, PATHS, TEXT, Paths
from brokerless.requests.options import given, request

FilePath = str | os.PathLike[str]


@request
class ServeRequest:
    paths: Paths = given(shared.PATHS, kw_only=False)
    topics: Collection[str] | str | None = given(
        NAMES,
        "only these topics, by names or patterns (orders*); groups keep their committed offsets in any case",
        flag=None,
        default=None,
    )
    listen: str = given(TEXT, "the address to listen on; port 0 is any free one", "HOST:PORT", default="127.0.0.1:0")
    advertise: str | None = given(
        TEXT, "the address that clients are to connect to, if that is another one", "HOST:PORT", default=None
    )
    offsets: FilePath | None = given(
        PATH,
        "also keep the offsets that groups commit in this file (JSON Lines), and begin with those in it",
        default=None,
    )
    skip_damaged: bool = given(FLAG, "go on at the next intact batch where one is damaged", default=False)
    insecure: bool = given(
        FLAG, "listen on an address that other machines reach: whoever reaches it can read everything", default=False
    )
    tls_cert: FilePath | None = given(
        PATH, "listen over TLS, with this certificate (PEM, with its chain)", default=None
    )
    tls_key: FilePath | None = given(PATH, "the certificate's key (PEM), if it is in another file", default=None)
    tls_client_ca: FilePath | None = given(
        PATH,
        "only clients with a certificate of these authorities (PEM) may read; the cluster's ACLs say what",
        default=None,
    )
    principal_mapping_rules: str | None = given(
        TEXT,
        "rules that make a user's name of the name in a certificate, as a broker's ssl.principal.mapping.rules",
        "RULES",
        default=None,
    )
    users: FilePath | None = given(
        PATH, "only these users may read (name:password a line), by SCRAM or, with TLS, PLAIN", default=None
    )
    cluster_users: bool = given(
        FLAG,
        "only the cluster's own users may read, by SCRAM with their passwords; the cluster's ACLs say what",
        default=False,
    )
    super_users: Collection[str] = given(
        NAME_LIST,
        "a user of the cluster, or of a certificate, who may read everything (super.users; repeatable)",
        flag="--super-user",
        is_repeated=True,
        default=(),
    )
    allow_everyone_if_no_acl_found: bool = given(
        FLAG,
        "all users may read what no ACL is about, as with this setting of a broker; without it, only super users may",
        default=False,
    )
    include: Collection[Include] | Include = given(shared.INCLUDE, default=())
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    key_pairs: Mapping[str, FilePath] | None = given(shared.KEY_PAIR, default=None)
    layout: str | None = given(TEXT, "how copies of segments are named in a bucket", flag=None, default=None)
    remote: Paths | None = given(PATHS, "the bucket with the remote segments of tiered topics", flag=None, default=None)
    on_damage: Report | None = given(shared.ON_FINDING, default=None)
