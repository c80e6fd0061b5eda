"""What the rebuilt metadata has of the nodes: the registrations and settings of brokers, and the voters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from brokerless.clusters.disk import Disk
from brokerless.errors import UnreadableError, UsageError
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.jobs.rebuild.nodes import PROTOCOLS, Node, TargetDirectory, brokers_of, new_ids
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.values import Row


def register_brokers(
    cluster: Cluster,
    nodes: Sequence[Node],
    directories: Sequence[TargetDirectory],
    disks: Sequence[Disk],
    lost: list[str],
) -> None:
    """Give the registrations and settings of brokers the new IDs. All are fenced until their brokers come; their epoch
    is that of the mark of a clean stop, by which the controller knows that nothing of a log is missing (KIP-966)."""
    old = dict(cluster.brokers)
    gone = sorted(set(old) - {each.was for each in brokers_of(nodes)})
    gone = [] if any(each.is_snapshot for each in disks) else gone  # all that they had is in a snapshot
    lost += [f"broker {each}, of which no disk was given" for each in gone]
    cluster.brokers = {}
    cluster.controllers = {}  # each registers when it starts
    for node in brokers_of(nodes):
        row = old.get(-1 if node.was is None else node.was, {})
        own = [each for each in directories if each.node_id == node.node_id]
        epoch = max((_mark_epoch(each.path) for each in own if not each.is_new), default=-1)
        listeners = [
            {"name": each.name, "host": each.host, "port": each.port, "securityProtocol": _protocol_id(each.protocol)}
            for each in node.listeners
            if each.name != node.controller_listener
        ]
        cluster.brokers[node.node_id] = {
            "features": [], "incarnationId": "A" * 22, **row, "brokerId": node.node_id, "brokerEpoch": epoch,
            "endPoints": listeners or row.get("endPoints", []), "rack": node.rack or row.get("rack"), "fenced": True,
            "inControlledShutdown": False, "logDirs": [each.directory_id for each in own], "cordonedLogDirs": None,
        }  # fmt: skip
    names_of_nodes = {str(before): str(node_id) for before, node_id in new_ids(nodes).items()}
    for type_, name in list(cluster.configs):
        if type_ in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
            settings = cluster.configs.pop((type_, name))
            if name in names_of_nodes:
                cluster.configs[type_, names_of_nodes[name]] = settings
            else:
                lost.append(f"settings of broker {name}, which is not of the rebuilt cluster")


def _protocol_id(protocol: str | None) -> int:
    return PROTOCOLS.index(protocol) if protocol in PROTOCOLS else 0


def _mark_epoch(path: str) -> int:
    """The broker epoch in ``.kafka_cleanshutdown`` (``CleanShutdownFileHandler``, 4.4.0); -1 without one."""
    mark = Location(path) / names.CLEAN_SHUTDOWN
    with suppress(UnreadableError, ValueError, TypeError, KeyError):
        if mark.exists():
            return int(json.loads(mark.read(4096))["brokerEpoch"])
    return -1


def voters_of(nodes: Sequence[Node], directories: Sequence[TargetDirectory]) -> list[Row]:
    """Return the voters of a dynamic quorum. Raises :class:`UsageError` where the address of one is not known."""
    found: list[Row] = []
    for node in (each for each in nodes if each.is_controller):
        listener = node.controller_address
        if listener is None:
            text = f"the address of controller {node.node_id} is not known, and a dynamic quorum has it in its metadata"
            raise UsageError(f"{text}; give a mapping file with its listener CONTROLLER")
        first = next(each for each in directories if each.node_id == node.node_id and each.is_first)
        endpoint = {"name": listener.name, "host": listener.host, "port": listener.port}
        supported = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
        found.append(
            {
                "voterId": node.node_id,
                "voterDirectoryId": first.directory_id,
                "endpoints": [endpoint],
                "kRaftVersionFeature": supported,
            }
        )
    return found
