"""The nodes of a rebuilt cluster: by a mapping file, or else those that the disks and the metadata know; their log
directories, and what their ``server.properties`` have to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from msgspec import field

from brokerless.clusters.disk import Disk
from brokerless.clusters.metadata_replicas import Voter
from brokerless.clusters.placement import is_reserved
from brokerless.errors import UsageError
from brokerless.internals.metadata.cluster import Cluster
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import join
from brokerless.values import Int32, Row, Value, WrongJsonError, from_json

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By ``SecurityProtocol.id``."""
PLAIN = PROTOCOLS[0]
UNKNOWN = "HOST:PORT"
"""What ``server.properties`` has in place of an address that is not known."""
BROKER, CONTROLLER = "broker", "controller"
_LIMIT = 16 << 20


@dataclass(frozen=True, slots=True)
class NodeListener:
    """A listener as others reach it."""

    name: str
    host: str
    port: int
    protocol: str | None
    """The security protocol, one of :data:`PROTOCOLS`; None where it is not known."""

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the rebuilt cluster."""

    node_id: int
    was: int | None
    """The ID of the node of the old cluster whose replicas it has; None for a new node."""
    roles: tuple[str, ...]
    listeners: tuple[NodeListener, ...]
    rack: str | None
    disks: tuple[str, ...]
    """The paths of the old node's log directories."""
    controller_listener: str | None = None
    """The name of the listener on which it is a controller."""

    @property
    def controller_address(self) -> NodeListener | None:
        """The listener on which controllers talk; None where it is not known."""
        return next((each for each in self.listeners if each.name == self.controller_listener), None)

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles


def brokers_of(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that are brokers."""
    return [each for each in nodes if each.is_broker]


def new_ids(nodes: Iterable[Node]) -> dict[int, int]:
    """Return the IDs of nodes that take over one of the old cluster, by the ID that it had there."""
    return {each.was: each.node_id for each in nodes if each.was is not None}


def owners(nodes: Iterable[Node]) -> dict[str, int]:
    """Return the broker that has each disk, by the disk's path."""
    return {path: each.node_id for each in brokers_of(nodes) for path in each.disks}


@dataclass(frozen=True, slots=True)
class TargetDirectory:
    """A log directory of the rebuilt cluster."""

    path: str
    node_id: int
    directory_id: str
    disk: Disk | None
    """The disk whose partitions it has; None for a new, empty one."""
    is_first: bool
    """Whether it is its node's first one, which has the metadata."""
    is_new: bool
    """Whether it is written as a new directory, and not changed in place."""

    def is_of(self, disk: Disk) -> bool:
        """Return whether it has the partitions of a disk."""
        return self.disk is not None and self.disk.path == disk.path


ALONE = Node(
    1, None, (BROKER, CONTROLLER),
    listeners=(NodeListener(PLAIN, "127.0.0.1", 9092, PLAIN), NodeListener("CONTROLLER", "127.0.0.1", 9093, PLAIN)),
    rack=None, disks=(), controller_listener="CONTROLLER",
)  # fmt: skip
"""The only node of a cluster of which no disk is left, and no mapping file says otherwise."""


def load_nodes(path: str, disks: Sequence[Disk]) -> tuple[Node, ...]:
    """Return the nodes in a mapping file: JSON with ``nodes``, each with ``id``, ``roles`` and, where they are needed,
    ``was``, ``listeners`` (address by name), ``controllerListener`` (the name of one, where it is not CONTROLLER),
    ``protocols`` (by listener), ``rack`` and ``disks``.

    Raises :class:`UsageError` for a file that says something else, or of disks that were not given.
    """
    try:
        document = from_json(Location(path).read(_LIMIT), _Mapping)
        nodes = tuple(_node(each, disks) for each in document.nodes)
    except WrongJsonError as error:
        raise UsageError(f"{path}: {error}; see brokerless rebuild --help for what a mapping file has") from error
    return _checked(path, nodes, disks)


class _MappedNode(Value, frozen=True):
    id: Int32
    roles: tuple[str, ...]
    was: Int32 | None = None
    listeners: dict[str, str] = field(default_factory=dict[str, str])
    controller_listener: str | None = None
    protocols: dict[str, str] = field(default_factory=dict[str, str])
    rack: str | None = None
    disks: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for each in self.roles:
            if each not in (BROKER, CONTROLLER):
                raise WrongJsonError(f"the role {each!r} is neither broker nor controller")
        for each in self.protocols.values():
            if each not in PROTOCOLS:
                raise WrongJsonError(f"the protocol {each!r} is none of {', '.join(PROTOCOLS)}")


class _Mapping(Value, frozen=True):
    nodes: tuple[_MappedNode, ...]


def _own_listener(roles: tuple[str, ...], listeners: tuple[NodeListener, ...]) -> str | None:
    """The name of a controller's listener: the usual one, or the only one of a node that is nothing else."""
    if CONTROLLER not in roles:
        return None
    is_only = BROKER not in roles and len(listeners) == 1
    return listeners[0].name if is_only else next((each.name for each in listeners if each.name == "CONTROLLER"), None)


def _node(mapped: _MappedNode, disks: Sequence[Disk]) -> Node:
    listeners = tuple(_listener(name, each, mapped) for name, each in mapped.listeners.items())
    paths, was = mapped.disks, mapped.was
    if paths is None:
        old = mapped.id if was is None else was
        paths = tuple(each.path for each in disks if each.node_id == old)
    if was is None:
        was = next((each.node_id for each in disks if each.path in paths and each.node_id is not None), mapped.id)
    own = mapped.controller_listener or _own_listener(mapped.roles, listeners)
    return Node(
        mapped.id, was, mapped.roles, listeners=listeners, rack=mapped.rack, disks=paths, controller_listener=own
    )


def _listener(name: str, address: str, node: _MappedNode) -> NodeListener:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise WrongJsonError(f"listener {name} of node {node.id} is no host and port, such as kafka1:9092")
    own = name if name in PROTOCOLS else "PLAINTEXT" if name == "CONTROLLER" else None
    return NodeListener(name, host.removeprefix("[").removesuffix("]"), int(port), node.protocols.get(name, own))


def _checked(path: str, nodes: tuple[Node, ...], disks: Sequence[Disk]) -> tuple[Node, ...]:
    known = {each.path for each in disks}
    used: dict[str, int] = {}
    for at, node in enumerate(nodes):
        if node.node_id in {each.node_id for each in nodes[:at]}:
            raise UsageError(f"{path}: there are two nodes with the id {node.node_id}")
        if not node.roles:
            raise UsageError(f"{path}: node {node.node_id} has no roles; give broker, controller or both")
        for each in node.disks:
            if each not in known:
                raise UsageError(f"{path}: node {node.node_id} has the disk {each}, which was not given as a path")
            if used.setdefault(each, node.node_id) != node.node_id:
                raise UsageError(f"{path}: the disk {each} is of two nodes, {used[each]} and {node.node_id}")
    if not any(each.is_controller for each in nodes):
        raise UsageError(f"{path}: no node is a controller, and without one no broker starts")
    return nodes


def known_nodes(disks: Sequence[Disk], cluster: Cluster, voters: Sequence[Voter]) -> tuple[Node, ...]:
    """Return the nodes without a mapping file: those of the disks, and the voters of the metadata, each with its old id
    and listeners. Where no voter is known, the node with the least id is a controller as well. Disks without
    ``meta.properties`` are nodes of their own, counted from 1 or after the largest id."""
    of_disks: dict[int, list[str]] = {}
    for disk in disks:
        if disk.node_id is not None:
            of_disks.setdefault(disk.node_id, []).append(disk.path)
    following = max(of_disks, default=0) + 1
    for disk in disks:
        if disk.node_id is None:
            of_disks[following] = [disk.path]
            following += 1
    voter_ids = {cast("int", each["voterId"]) for each in voters}
    brokers = {
        node
        for node, paths in of_disks.items()
        if node in cluster.brokers or any(disk.replicas for disk in disks if disk.path in paths)
    }
    controllers = voter_ids or {min(of_disks)}
    if not brokers:
        brokers = set(of_disks) - controllers
    return tuple(
        Node(
            node,
            node,
            tuple(role for role, which in ((BROKER, brokers), (CONTROLLER, controllers)) if node in which),
            listeners=tuple(_known_listeners(node, cluster, voters)),
            rack=cluster.brokers.get(node, {}).get("rack"),
            disks=tuple(of_disks.get(node, ())),
            controller_listener=_controller_name(node, cluster, voters) if node in controllers else None,
        )
        for node in sorted(brokers | controllers)
    )


def _controller_name(node: int, cluster: Cluster, voters: Iterable[Voter]) -> str | None:
    return next((str(row["name"]) for row in _controller_endpoints(node, cluster, voters)), None)


def _controller_endpoints(node: int, cluster: Cluster, voters: Iterable[Voter]) -> list[Row]:
    """Return the endpoints of a controller as it registered them, and as the log of the quorum has them."""
    of_voter = next((each for each in voters if each["voterId"] == node), {})
    own = cast("list[Row]", of_voter.get("endpoints", []))
    return [*cluster.controllers.get(node, {}).get("endPoints", ()), *own]


def _known_listeners(node: int, cluster: Cluster, voters: Iterable[Voter]) -> Iterator[NodeListener]:
    rows = [*cluster.brokers.get(node, {}).get("endPoints", ()), *_controller_endpoints(node, cluster, voters)]
    seen: set[str] = set()
    for row in rows:
        if row["name"] not in seen:
            seen.add(row["name"])
            protocol, known = row.get("securityProtocol"), PLAIN  # of a voter, its records do not have it
            if isinstance(protocol, int) and 0 <= protocol < len(PROTOCOLS):
                known = PROTOCOLS[protocol]
            elif row["name"] in PROTOCOLS:
                known = row["name"]
            yield NodeListener(row["name"], row["host"], row["port"], known)


def refuse_running(disks: Iterable[Disk]) -> None:
    """Raises :class:`UsageError` for a disk on which a broker runs."""
    for each in disks:
        if each.is_running:
            text = "a broker, or another process that writes, is running on this log directory"
            raise UsageError(f"{each.path}: {text}; stop it, or give a copy of the directory")


def plan_directories(
    disks: Sequence[Disk], nodes: Sequence[Node], to: str, *, in_place: bool
) -> tuple[TargetDirectory, ...]:
    """Return the log directories of the nodes: one for each disk, or a new one in ``to``."""
    by_path = {each.path: each for each in disks}
    found: list[TargetDirectory] = []
    for node in nodes:
        own = [by_path[path] for path in node.disks]
        if in_place:  # the disk that has the metadata stays the one that has it
            own.sort(key=lambda each: each.metadata is None)
        for number, disk in enumerate(own or [None]):
            name = f"node-{node.node_id}" + (f"-{number + 1}" if number else "")
            is_new = disk is None or not in_place
            directory_id = None if disk is None or is_reserved(disk.directory_id or "") else disk.directory_id
            path = join(to, name) if disk is None or is_new else disk.path
            found.append(
                TargetDirectory(
                    path, node.node_id, directory_id or random_id(), disk=disk, is_first=not number, is_new=is_new
                )
            )
    return tuple(found)


def server_properties(
    node: Node, nodes: Sequence[Node], log_dirs: Sequence[str], *, is_dynamic: bool
) -> dict[str, str]:
    """Return the settings of a node by name; all others are as they were. Addresses that are not known are
    ``HOST:PORT``. ``nodes``: all of the cluster. ``is_dynamic``: voters are in the metadata. A node has the listeners
    of its roles only: a controller does not start with a broker's (``KafkaConfig.validateValues``, 4.4.0), nor a broker
    with its controllers'."""
    controllers = [each for each in nodes if each.is_controller]
    names = [each.controller_listener or "CONTROLLER" for each in controllers]
    found = {"node.id": str(node.node_id), "process.roles": ",".join(node.roles)}
    found["controller.listener.names"] = ",".join(dict.fromkeys(names))
    if not is_dynamic:
        voters = ((each.node_id, _address(each.controller_address)) for each in controllers)
        found["controller.quorum.voters"] = ",".join(f"{number}@{address}" for number, address in voters)
    else:
        addresses = (_address(each.controller_address) for each in controllers)
        found["controller.quorum.bootstrap.servers"] = ",".join(addresses)
    own = [each for each in node.listeners if each.name not in names]
    fitting = [each for each in node.listeners if (node.is_controller if each.name in names else node.is_broker)]
    listening = [f"{each.name}://{each.address}" for each in fitting]
    if node.is_controller and node.controller_address is None:
        listening.append(f"{names[0]}://{UNKNOWN}")
    if node.is_broker and not own:
        listening.insert(0, f"PLAINTEXT://{UNKNOWN}")
    found["listeners"] = ",".join(listening)
    if node.is_broker and own:
        found["advertised.listeners"] = ",".join(f"{each.name}://{each.address}" for each in own)
    protocols = {each.name: each.protocol for of_node in nodes for each in of_node.listeners if each.protocol}
    if protocols:
        found["listener.security.protocol.map"] = ",".join(f"{name}:{each}" for name, each in protocols.items())
    found["log.dirs"] = ",".join(log_dirs)
    if node.rack is not None:
        found["broker.rack"] = node.rack
    return found


def _address(listener: NodeListener | None) -> str:
    return UNKNOWN if listener is None else listener.address
