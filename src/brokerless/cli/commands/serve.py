"""``brokerless serve``: a read-only Kafka endpoint over log directories."""

from __future__ import annotations

import asyncio
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from brokerless.cli.options import add_remote
from brokerless.cli.output import Output
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import is_selected
from brokerless.requests.serving import ServeRequest
from brokerless.text import count_of, format_bytes

if TYPE_CHECKING:
    from brokerless.log.directory import LogDirectory
    from brokerless.serving.server import Server

DESCRIPTION = """\
Serves log directories to every Kafka client, read-only: console consumers, kcat, kafka-ui, Spark, Flink, MirrorMaker.

It answers as a broker of Kafka 4.4 that leads all partitions which are on these disks. Partitions that are elsewhere
are listed without a leader. Of several replicas, the one that merge would lead with is served. Batches go out as they
lie in the files; nothing is ever written there, and every request to write is refused. A broker may be running on the
directory: what it appends, and partitions that it adds, are served as well.

Consumer groups work, by both protocols, and begin at the offsets that the dead cluster has committed. New
commits are in memory, or in a file (--offsets), from which the next run goes on.

Damaged batches are reported here, once, and answered with CORRUPT_MESSAGE, at which consumers stop; with
--skip-damaged they go on at the next intact batch. A gap where a segment is missing is reported, and consumers go on
after it, as with any broker.

It listens on this machine alone (127.0.0.1:9092); any other address needs --insecure, or TLS (--tls-cert) with logins
or clients' certificates: by SCRAM or PLAIN with --users; by SCRAM with --cluster-users, the cluster's own users and
passwords under its ACLs; with --tls-client-ca, under its ACLs. Not served: share and streams groups, and records that
are in remote storage alone.

It runs until Ctrl-C or SIGTERM. The exit code is 0, 1 if damage was found, and 2 for what cannot be served.
"""
EXAMPLES = """\
  brokerless serve /var/lib/kafka
  brokerless serve /mnt/disk1 /mnt/disk2 --listen 127.0.0.1:0 -t 'orders*'
  brokerless serve /mnt/disk1 --listen 0.0.0.0:9093 --tls-cert server.pem --users users
  brokerless serve /backup/kafka --offsets offsets.jsonl --skip-damaged
"""
HAS_TABLES = False


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, ServeRequest, without=("key_pairs",), listen="127.0.0.1:9092")


def run(options: Namespace, output: Output) -> None:
    from brokerless.serving.descriptors import raise_limit
    from brokerless.serving.fair_threads import switch_often
    from brokerless.serving.server import Server, options_of

    raise_limit()
    switch_often()
    serve = options_of(request_of(ServeRequest, options, paths=options.paths, key_pairs=None))
    directories, hidden = _selected(output, options)
    output.refuse_unusable("nothing is served")
    server = Server(directories, serve, output.damage, hidden=hidden, is_wanted=partial(is_selected, options))
    asyncio.run(_serve(server, output))


def _selected(output: Output, options: Namespace) -> tuple[list[LogDirectory], frozenset[str]]:
    """The directories with their selected partitions; and the paths of others that are read all the same."""
    from brokerless.serving.source.topics import only

    found: list[LogDirectory] = []
    hidden: frozenset[str] = frozenset()
    for everything, partitions in output.directories(options):
        directory, others = only(everything, {each.path for each in partitions})
        found.append(directory)
        hidden |= others
    return found, hidden


async def _serve(server: Server, output: Output) -> None:
    loop = asyncio.get_running_loop()
    with suppress(RuntimeError, ValueError, NotImplementedError):  # only the main thread gets signals
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, server.stop)

    def ready(server: Server) -> None:
        output.result([_row(server)], _lines(server))
        output.flush()

    await server.run(ready)


def _row(server: Server) -> dict[str, object]:
    topics = server.topics
    return {
        "bootstrapServers": server.bootstrap_servers,
        "clusterId": topics.cluster_id,
        "nodeId": topics.node_id,
        "topics": len(topics.by_name),
        "partitions": len(topics.partitions),
        "sizeInBytes": sum(each.paths.size for each in topics.partitions),
    }


def _lines(server: Server) -> Iterator[str]:
    from brokerless.serving.login import PLAIN
    from brokerless.serving.server import is_loopback

    topics, own = server.topics, [each for each in server.topics.by_name.values() if not each.is_internal]
    size = format_bytes(sum(each.paths.size for each in topics.partitions))
    counts = f"{count_of(len(topics.by_name), 'topic')}, {count_of(len(topics.partitions), 'partition')}, {size}"
    yield f"serving {', '.join(each.path for each in server.directories)} read-only: {counts}"
    options = server.options
    who = "programs on this machine" if is_loopback(options.listen[0]) else "everybody who reaches this machine"
    logins = (
        f"who log in by {'SCRAM or PLAIN' if PLAIN in server.mechanisms else 'SCRAM'}"
        if options.has_logins
        else "without logins"
    )
    if options.tls_client_ca is not None:
        logins = f"with a certificate that is signed by one in {options.tls_client_ca}" + (
            f", {logins}" if options.has_logins else ""
        )
    yield f"to {who}, {logins}, {'over TLS' if options.tls_cert is not None else 'without TLS'}:"
    yield f"  bootstrap.servers={server.bootstrap_servers}"
    protocol = ("SASL_" if options.has_logins else "") + ("SSL" if options.tls_cert is not None else "PLAINTEXT")
    if protocol != "PLAINTEXT":
        yield f"  security.protocol={protocol}"
    if options.tls_client_ca is not None:
        yield "  ssl.keystore.type=PEM"
        yield "  ssl.keystore.location=CERTIFICATE_AND_KEY.pem"
    if options.has_logins:
        yield f"  sasl.mechanism={server.mechanisms[-1]}"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        yield f'  sasl.jaas.config={module} required username="NAME" password="PASSWORD";'
    name = next((each.name for each in own), next(iter(topics.by_name)))
    command = f"kafka-console-consumer.sh --bootstrap-server {server.bootstrap_servers}"
    if protocol != "PLAINTEXT":
        yield "with these lines in a file client.properties (before Kafka 4.2: --consumer.config):"
        command += " --command-config client.properties"
    yield f"  {command} --topic {name} --from-beginning"
    if not topics.offsets_from:
        yield "groups have no committed offsets: __consumer_offsets is not on these disks"
    yield "Ctrl-C ends it"
