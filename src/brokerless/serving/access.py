"""Who may do what, by the ACLs of the dead cluster: the rules of ``StandardAuthorizerData`` (4.4.0).

An ACL that denies comes before all that allow. Where no ACL is about a resource, nobody may but super users, unless
``allow.everyone.if.no.acl.found`` was set: neither is in the metadata of a cluster, but in its ``server.properties``.
Hosts are those that clients have here, and not what they had in the cluster's network. They are compared as text, in
which ``::1`` of an ACL is nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address

from brokerless.values import Row

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
"""``ResourceType``."""
THE_CLUSTER = "kafka-cluster"
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11
"""``AclOperation``."""
_LITERAL, _PREFIXED = 3, 4
_ANY, _MATCH = 1, 2
_DENY = 2
_EVERYBODY, _ANYTHING = "User:*", "*"
_IMPLYING = {
    DESCRIBE: frozenset((ALL, DESCRIBE, READ, WRITE, DELETE, ALTER)),
    DESCRIBE_CONFIGS: frozenset((ALL, DESCRIBE_CONFIGS, ALTER_CONFIGS)),
}
"""The operations that allow another one; to deny them does not deny it."""
_MOST_KNOWN = 100_000


def java_address(address: str, scope_id: int = 0) -> str:
    """Write an address of a socket as ``InetAddress.getHostAddress`` does, and so as ACLs and groups have it."""
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    groups = ":".join(f"{int(each, 16):x}" for each in found.exploded.partition("%")[0].split(":"))
    return f"{groups}%{scope_id}" if scope_id else groups


@dataclass(slots=True)
class Access:
    """The permissions of users, by the ACLs of the dead cluster."""

    acls: Collection[Row]
    super_users: Collection[str] = ()
    """The names of users who may do everything."""
    allows_unless_listed: bool = False
    _known: dict[tuple[str, str, int, int, str], bool] = field(
        default_factory=dict[tuple[str, str, int, int, str], bool]
    )

    def allows(self, user: str, host: str, operation: int, type_: int, name: str) -> bool:
        """Return whether a user may do something with a resource, from a host (an address)."""
        if user in self.super_users:
            return True
        key = user, host, operation, type_, name
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._decide(*key)
        return found

    def _decide(self, user: str, host: str, operation: int, type_: int, name: str) -> bool:
        of_resource = [each for each in self.acls if each["resourceType"] == type_ and _is_about(each, name)]
        if not of_resource:
            return self.allows_unless_listed
        users = (f"User:{user}", _EVERYBODY)
        own = [each for each in of_resource if each["principal"] in users and each["host"] in (host, _ANYTHING)]
        if any(each["permissionType"] == _DENY and each["operation"] in (operation, ALL) for each in own):
            return False
        allowing = _IMPLYING.get(operation, (operation, ALL))
        return any(each["permissionType"] != _DENY and each["operation"] in allowing for each in own)


def _is_about(acl: Row, name: str) -> bool:
    if acl["patternType"] == _PREFIXED:
        return name.startswith(acl["resourceName"])
    return acl["patternType"] == _LITERAL and acl["resourceName"] in (name, _ANYTHING)


def matching_acls(acls: Iterable[Row], wanted: Row) -> list[Row]:
    """Return the ACLs that a DescribeAcls request is about, by resource (``AclBindingFilter``, 4.4.0)."""
    found: dict[tuple[int, int, str], list[Row]] = {}
    for each in acls:
        if _is_wanted(each, wanted):
            key = each["resourceType"], each["patternType"], each["resourceName"]
            row = {name: each[name] for name in ("principal", "host", "operation", "permissionType")}
            found.setdefault(key, []).append(row)
    return [
        {"resourceType": type_, "patternType": pattern, "resourceName": name, "acls": rows}
        for (type_, pattern, name), rows in found.items()
    ]


def _is_wanted(acl: Row, wanted: Row) -> bool:
    if wanted["resourceTypeFilter"] not in (_ANY, acl["resourceType"]):
        return False
    if any(wanted[each] not in (_ANY, acl[each]) for each in ("operation", "permissionType")):
        return False
    for name in ("principal", "host"):
        if wanted[f"{name}Filter"] not in (None, acl[name]):
            return False
    pattern, name = wanted.get("patternTypeFilter", _LITERAL), wanted["resourceNameFilter"]
    if pattern not in (_ANY, _MATCH, acl["patternType"]):
        return False
    if name is None:
        return True
    return _is_about(acl, name) if pattern == _MATCH else name == acl["resourceName"]
