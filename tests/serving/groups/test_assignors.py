from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerless.serving.groups.assignors import ASSIGNORS, assign_range, assign_uniform

TOPICS = {"a": 3, "b": 4, "c": 0}


@given(
    st.dictionaries(st.sampled_from("mnopq"), st.sets(st.sampled_from("abcd")), min_size=1),
    st.dictionaries(st.sampled_from("mnopq"), st.sets(st.tuples(st.sampled_from("ab"), st.integers(0, 5)))),
)
def test_each_partition_has_one_member_that_wants_it(
    subscriptions: dict[str, set[str]], current: dict[str, set[tuple[str, int]]]
) -> None:
    wanted = {
        (topic, number) for topic in set().union(*subscriptions.values()) for number in range(TOPICS.get(topic, 0))
    }
    for assign in ASSIGNORS.values():
        found = assign(subscriptions, TOPICS, current)
        assert found.keys() == subscriptions.keys()
        assert sorted(place for own in found.values() for place in own) == sorted(wanted)
        assert all(topic in subscriptions[member] for member, own in found.items() for topic, _ in own)


@given(st.integers(1, 9), st.integers(0, 20))
def test_members_with_the_same_topics_get_about_the_same(members: int, partitions: int) -> None:
    subscriptions = {f"m{number}": {"a"} for number in range(members)}
    found = assign_uniform(subscriptions, {"a": partitions}, {"m0": {("a", each) for each in range(partitions)}})
    sizes = [len(own) for own in found.values()]
    assert max(sizes) - min(sizes) <= 1
    again = assign_uniform(subscriptions, {"a": partitions}, found)
    assert again == found


def test_ranges_are_consecutive() -> None:
    found = assign_range({"n": {"a", "b"}, "m": {"a"}}, TOPICS, {})
    assert found == {"m": {("a", 0), ("a", 1)}, "n": {("a", 2), ("b", 0), ("b", 1), ("b", 2), ("b", 3)}}
