"""What the ``server.properties`` of each node has to say, for the directories of a rebuilt cluster."""

from __future__ import annotations

from collections.abc import Sequence

from brokerless.jobs.rebuild.nodes import Node, NodeListener

UNKNOWN = "HOST:PORT"
"""In place of an address that is not known."""


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
