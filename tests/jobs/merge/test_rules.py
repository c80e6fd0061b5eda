"""The rules of a merge, on random histories of replication: whose log counts, where others leave it, what fills it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.examples import examples
from tests.jobs.replicas import Batch, Cluster, ModelReplica, shared

from brokerless.jobs.merge.agreement import MergedReplica, agree, rank
from brokerless.jobs.merge.leader_epochs import EpochStart, joined, starts_of, with_right_epochs, with_right_last_epoch
from brokerless.jobs.merge.outcome import committed_until, contributions, divergences, losses
from brokerless.jobs.merge.replica_merge import MergedBatches, fill
from brokerless.jobs.recovered.intact_batches import INTACT_BATCH
from brokerless.jobs.recovered.losses import Loss
from brokerless.log.checkpoint.leader_epochs import Epochs

REPLICA = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("elect"), REPLICA, st.integers(1, 3)),
        st.tuples(st.just("append"), st.integers(1, 3), st.sampled_from(["a", "b"])),
        st.tuples(st.just("append"), st.integers(1, 3), st.sampled_from(["a", "b"])),
        st.tuples(st.just("fetch"), REPLICA, st.integers(0, 5)),
        st.tuples(st.just("fetch"), REPLICA, st.integers(0, 5)),
    ),
    max_size=60,
)
DAMAGE = st.tuples(*[st.sets(st.integers(0, 25)) for _ in range(3)])


def clusters(steps: list[tuple]) -> Cluster:
    cluster = Cluster()
    cluster.elect(0)
    for name, *arguments in steps:
        getattr(cluster, name)(*arguments)
    return cluster


def intact(batches: list[Batch], file: int = 0) -> NDArray[np.void]:
    found = np.zeros(len(batches), INTACT_BATCH)
    found["file"], found["size"], found["magic"], found["follows"] = file, 100, 2, True
    found["position"] = np.arange(len(batches)) * 100
    for name, of in (("first", lambda each: each.offset), ("last", lambda each: each.end - 1)):
        found[name] = [of(each) for each in batches]
    found["epoch"] = [each.epoch for each in batches]
    found["records"] = [each.count for each in batches]
    found["checksum"] = [hash((each.offset, each.count, each.text)) & 0xFFFFFFFF for each in batches]
    return found


def copy_of(
    replica: ModelReplica, number: int = 0, lost: set[int] = frozenset(), noted: Epochs | None = None
) -> MergedReplica:
    """A replica's log without the batches that are lost."""
    kept = [each for row, each in enumerate(replica.batches) if row not in lost]
    gone = [Loss(b.offset, b.end - 1, None, None, ()) for row, b in enumerate(replica.batches) if row in lost]
    batches = intact(kept, number)
    reach = kept[-1].end if kept else 0
    starts = starts_of(batches, replica.epochs if noted is None else noted, 0)
    return MergedReplica(batches, tuple(gone), 0, 0, reach, replica.end, starts)


def merged(replicas: list[MergedReplica]) -> tuple[int, MergedBatches, list[int]]:
    order = rank(replicas)
    agreements = agree(replicas, order)
    return order[0], fill(replicas, order, agreements, 0), [each.until for each in agreements]


def as_batches(filled: MergedBatches) -> list[tuple[int, int, int, int]]:
    names = ("first", "last", "epoch", "checksum")
    return list(zip(*(filled.batches[name].tolist() for name in names), strict=True))


def keys(batches: list[Batch]) -> list[tuple[int, int, int, int]]:
    rows = intact(batches)
    return list(zip(*(rows[name].tolist() for name in ("first", "last", "epoch", "checksum")), strict=True))


@examples(100)
@given(STEPS, st.booleans())
@example([("append", 3, "a"), ("fetch", 1, 5), ("append", 2, "a"), ("elect", 1, 1)], True)
def test_the_last_leaders_log_is_the_result_and_others_leave_it_where_their_batches_do(
    steps: list[tuple], is_noted: bool
) -> None:
    """What is noted of epochs only adds that a leader was elected that has not written yet."""
    cluster = clusters(steps)
    replicas = [copy_of(replica, noted=None if is_noted else ()) for replica in cluster.replicas]

    def key(replica: ModelReplica) -> tuple[int, int]:
        written = replica.batches[-1].epoch if replica.batches else -1
        return (replica.last_epoch if is_noted else written), replica.end

    last = max(cluster.replicas, key=key)
    leading, filled, untils = merged(replicas)
    assert key(cluster.replicas[leading]) == key(last)
    assert as_batches(filled) == keys(cluster.replicas[leading].batches)
    for number, replica in enumerate(cluster.replicas):
        if number != leading:
            same = shared(replica, cluster.replicas[leading])
            assert untils[number] == (replica.batches[same - 1].end if same else 0)
    told = {each.replica: each.batches for each in divergences(replicas, agree(replicas, rank(replicas)))}
    for number, replica in enumerate(cluster.replicas):
        assert told.get(number, 0) == len(replica.batches) - shared(replica, cluster.replicas[leading])


@examples(200)
@given(STEPS, DAMAGE)
def test_every_batch_of_the_history_that_any_copy_has_is_there_and_no_other(
    steps: list[tuple], damage: tuple[set[int], set[int], set[int]]
) -> None:
    cluster = clusters(steps)
    replicas = [copy_of(*each) for each in zip(cluster.replicas, range(3), damage, strict=True)]
    order = rank(replicas)
    agreements = agree(replicas, order)
    filled = fill(replicas, order, agreements, 0)
    history = cluster.last.batches
    there = {
        each
        for replica, lost in zip(cluster.replicas, damage, strict=True)
        for row, each in enumerate(replica.batches[: shared(replica, cluster.last)])
        if row not in lost
    }
    assert as_batches(filled) == keys(sorted(there, key=lambda each: each.offset))
    assert sum(each.batches for each in contributions(filled)) == len(there)
    found = losses(filled, replicas, agreements, order[0], 0, cluster.last.end)
    missing = {offset for each in found for offset in range(each.first_offset, (each.last_offset or 0) + 1)}
    had = {offset for each in there for offset in range(each.offset, each.end)}
    assert missing == {offset for each in history for offset in range(each.offset, each.end)} - had


def test_what_epochs_hide_is_not_taken_for_the_same() -> None:
    """The leader has lost what was around the beginning of its epoch, and with it what it had noted."""
    common = [Batch(offset, 1, 0, "a") for offset in range(10)]
    leader = ModelReplica([*common[:8], *(Batch(offset, 1, 4, "new") for offset in range(8, 14))], ((0, 0), (4, 8)))
    follower = ModelReplica([*common, Batch(10, 1, 0, "old")], ((0, 0),))
    for noted, until in ((None, 8), ((), 6)):
        replicas = [copy_of(leader, 0, {6, 7, 8, 9}, noted), copy_of(follower, 1)]
        _, filled, untils = merged(replicas)
        assert untils[1] == until
        assert [batch[0] for batch in as_batches(filled)] == [*range(until), 10, 11, 12, 13]
    # A third copy, of the same epoch, knows.
    third = ModelReplica(leader.batches[:9], leader.epochs)
    replicas = [copy_of(leader, 0, {6, 7, 8, 9}, ()), copy_of(follower, 1), copy_of(third, 2, {6}, ())]
    _, filled, untils = merged(replicas)
    assert untils == [14, 8, 9]
    assert contributions(filled)[2].replica == 2 or contributions(filled)[1].replica == 1
    assert [batch[0] for batch in as_batches(filled)] == [*range(9), 10, 11, 12, 13]


@pytest.mark.parametrize("epoch", [0, 1, 3, 4, 6, 900, 2**30])
@pytest.mark.parametrize("row", [0, 1, 4, 5, 8, 9])
def test_an_epoch_that_cannot_be_is_set_right(row: int, epoch: int) -> None:
    """No checksum covers it. What lies between its neighbours' epochs could be, and what is noted decides; nothing but
    another copy speaks against the last one."""
    epochs = [2, 2, 2, 2, 2, 5, 5, 5, 5, 5]
    batches = intact([Batch(offset, 1, each, "a") for offset, each in enumerate(epochs)])
    changed = batches.copy()
    changed["epoch"][row] = epoch
    found = with_right_epochs(changed, ((2, 0), (5, 5)))
    if epoch == epochs[row] or (row == 9 and epoch > 5):
        assert (found == changed).all()
    else:
        assert found["restamped"].tolist() == [at == row for at in range(10)]
        assert found["epoch"].tolist() == epochs


def test_the_last_epoch_is_believed_unless_what_is_recorded_and_the_other_copies_speak_against_it() -> None:
    batches = [Batch(offset, 1, 2, "a") for offset in range(5)]
    right, wrong, absurd = intact(batches), intact(batches), intact(batches)
    wrong["epoch"][4], absurd["epoch"][4] = 6, 66
    noted = ((2, 0),)
    assert with_right_last_epoch(wrong, noted, [right])["epoch"].tolist() == [2] * 5
    assert with_right_last_epoch(wrong, noted, [])["epoch"][4] == 6
    assert with_right_last_epoch(wrong, (), [right])["epoch"][4] == 6
    assert with_right_last_epoch(wrong, ((2, 0), (6, 4)), [right])["epoch"][4] == 6
    other = intact([*batches[:4], Batch(4, 1, 2, "b")])
    assert with_right_last_epoch(wrong, noted, [other])["epoch"][4] == 6
    assert with_right_last_epoch(absurd, noted, [other])["epoch"].tolist() == [2] * 5
    other["epoch"][4] = 65
    assert with_right_last_epoch(absurd, noted, [other])["epoch"][4] == 66


def test_what_two_copies_know_of_epochs_is_put_together() -> None:
    ours = (EpochStart(1, 0, 0), EpochStart(4, 20, 40))
    assert joined(ours, (EpochStart(1, 0, 0), EpochStart(3, 25, 25), EpochStart(4, 30, 30)), 50) == (
        EpochStart(1, 0, 0),
        EpochStart(3, 25, 25),
        EpochStart(4, 30, 30),
    )
    # Its first epoch may have begun before the other log does; and what comes after they part does not count.
    assert joined(ours, (EpochStart(4, 35, 35),), 50) == ours
    assert joined(ours, (EpochStart(1, 0, 0), EpochStart(3, 25, 25)), 25) == ours


def test_copies_without_epochs_are_compared_by_what_they_have() -> None:
    def old(texts: str) -> MergedReplica:
        batches = intact([Batch(offset, 1, -1, text) for offset, text in enumerate(texts)])
        batches["magic"] = 1
        return MergedReplica(batches, (), 0, 0, len(texts), len(texts))

    replicas = [old("abcdefgh"), old("abcxyz"), old("abcde")]
    order = rank(replicas)
    found = agree(replicas, order)
    assert order == [0, 1, 2]
    assert [(each.until, each.by) for each in found] == [(8, "contents"), (3, "contents"), (5, "contents")]


def test_a_compacted_log_is_filled_with_all_that_the_other_copy_has_from_there_on() -> None:
    """Else a tombstone could be missing that the leading copy needs no more, and its key would live again."""
    everything = [Batch(offset, 2, 0, "a") for offset in range(0, 40, 2)]
    leading, other = copy_of(ModelReplica(everything, ((0, 0),))), copy_of(ModelReplica(everything, ((0, 0),)), 1)
    batches = leading.batches[[0, 1, 2, 8, 9, 15, 19]].copy()
    batches["records"][5:] = 1
    loss = Loss(int(batches["last"][2]) + 1, int(batches["first"][3]) - 1, None, None, ())
    leading = MergedReplica(batches, (loss,), 0, 0, 40, 40, leading.starts, None, True)
    replicas = [leading, MergedReplica(other.batches[1:19], (), 2, 2, 38, 38, other.starts, None, True)]
    _, filled, _ = merged(replicas)
    assert filled.batches["first"].tolist() == [0, 2, *range(4, 38, 2), 38]
    assert filled.batches["records"].tolist() == [*[2] * 19, 1]
    assert filled.givers.tolist() == [0, 0, 0, *[1] * 5, 0, 0, *[1] * 9, 0]
    # Where nothing is damaged, what the leading copy has is right.
    replicas[0] = MergedReplica(batches, (), 0, 0, 40, 40, leading.starts, None, True)
    _, filled, _ = merged(replicas)
    assert (filled.batches == batches).all()


def test_committed_is_what_is_recorded_or_what_most_have() -> None:
    replicas = [ModelReplica([Batch(at, 1, 0, "a") for at in range(end)], ((0, 0),)) for end in (10, 7, 4)]
    replicas = [copy_of(replica, number) for number, replica in enumerate(replicas)]
    assert committed_until(replicas, agree(replicas, rank(replicas))) == 7
    assert committed_until(replicas[:2], agree(replicas[:2], [0, 1])) == 7
    assert committed_until(replicas[:1], agree(replicas[:1], [0])) is None
    noted = MergedReplica(replicas[2].batches, (), 0, 0, 4, 4, replicas[2].starts, 9)
    assert committed_until([replicas[0], noted], agree([replicas[0], noted], [0, 1])) == 4
    noted = MergedReplica(replicas[0].batches, (), 0, 0, 10, 10, replicas[0].starts, 9)
    assert committed_until([noted, *replicas[1:]], agree([noted, *replicas[1:]], [0, 1, 2])) == 9
