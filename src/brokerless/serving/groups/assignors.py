"""Assigns partitions to the members of a group of KIP-848: ``uniform`` and ``range``, as brokers name them.

``uniform`` leaves members what they have as far as that is balanced; ``range`` gives each member consecutive partitions
of each topic (``UniformAssignor``, ``RangeAssignor``, 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from brokerless.kafka_names import TopicPartition

Assignment = dict[str, set[TopicPartition]]
"""The partitions of each member."""
Subscriptions = Mapping[str, Set[str]]
"""The IDs of the topics of each member."""


def assign_uniform(
    subscriptions: Subscriptions, counts: Mapping[str, int], current: Mapping[str, Set[TopicPartition]]
) -> Assignment:
    """Give each member about as many partitions as others. ``counts``: of the partitions of each topic."""
    result: Assignment = {member: set() for member in sorted(subscriptions)}
    subscribers: dict[str, list[str]] = {}
    for member in result:
        for topic in subscriptions[member]:
            subscribers.setdefault(topic, []).append(member)
    everything = {(topic, number) for topic in subscribers for number in range(counts.get(topic, 0))}
    most = -(-len(everything) // max(1, len(result)))
    larger = len(everything) - (most - 1) * len(result)  # so many members may have that many
    taken: set[TopicPartition] = set()
    for member, own in result.items():
        topics = subscriptions[member]
        kept = sorted(each for each in current.get(member, ()) if each in everything - taken and each[0] in topics)
        own.update(kept[: most if larger > 0 else most - 1])
        larger -= len(own) == most
        taken |= own
    for place in sorted(everything - taken):
        least = min(subscribers[place[0]], key=lambda member: (len(result[member]), member))
        result[least].add(place)
    return result


def assign_range(
    subscriptions: Subscriptions, counts: Mapping[str, int], current: Mapping[str, Set[TopicPartition]]
) -> Assignment:
    """Give each member consecutive partitions of each of its topics."""
    result: Assignment = {member: set() for member in sorted(subscriptions)}
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        members = [member for member in result if topic in subscriptions[member]]
        each, more = divmod(counts.get(topic, 0), len(members))
        first = 0
        for number, member in enumerate(members):
            end = first + each + (number < more)
            result[member].update((topic, partition) for partition in range(first, end))
            first = end
    return result


ASSIGNORS: dict[str, Callable[[Subscriptions, Mapping[str, int], Mapping[str, Set[TopicPartition]]], Assignment]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""By name, the default first."""
