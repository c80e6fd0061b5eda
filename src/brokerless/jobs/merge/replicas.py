"""Prepares the replicas of a partition for comparison, and finds where the merged log begins and ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from brokerless.clusters.epoch_checks import epochs_disagree
from brokerless.findings import Kind
from brokerless.jobs.merge.agreement import Agreement, MergedReplica
from brokerless.jobs.merge.leader_epochs import disagreement, starts_of, with_right_epochs, with_right_last_epoch
from brokerless.jobs.merge.replica_merge import MergedBatches
from brokerless.jobs.recovered.reading import PartitionFiles, RecoveredLog
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, epochs_of, load_leader_epochs, truncate_from_end
from brokerless.progress import Report


def read_replicas(
    founds: Sequence[RecoveredLog], paths: Sequence[str], report: Report
) -> tuple[list[MergedReplica], list[Epochs]]:
    """Return the replicas, whose batches count their files in ``paths``, those of all replicas; and what is recorded of
    the epochs of each, as far as it can be believed."""
    recorded = [_recorded(found.files, report) for found in founds]
    before = np.cumsum([0, *(len(found.files.files) for found in founds)])
    right = [with_right_epochs(found.saved, epochs) for found, epochs in zip(founds, recorded, strict=True)]
    others = [[*right[:number], *right[number + 1 :]] for number in range(len(right))]
    right = [with_right_last_epoch(*each) for each in zip(right, recorded, others, strict=True)]
    replicas: list[MergedReplica] = []
    believed: list[Epochs] = []
    for number, (found, batches, epochs) in enumerate(zip(founds, right, recorded, strict=True)):
        batches = batches.copy()
        batches["file"] += before[number]
        wrong = disagreement(batches, epochs)
        checkpoint = found.files.paths[0].leader_epoch_checkpoint
        if wrong is not None and checkpoint is not None:
            row = batches[wrong]
            text = "leader epochs are recorded here that are not those of the batches; the batches are believed"
            stated = f"epoch {row['epoch']} at offset {row['first']}, in {paths[int(row['file'])]}"
            report(epochs_disagree(checkpoint.path, text, offset=int(row["first"]), expected=stated))
            epochs = ()
        live = max((each.base_offset for each in found.files.paths[0].segments), default=found.begin)
        reach = max(live, int(batches["last"][-1]) + 1 if len(batches) else found.begin)
        replica = MergedReplica(
            batches,
            tuple(found.losses(found.saved, found.regions)),
            found.begin,
            start=found.start,
            reach=reach,
            end=max(found.end, reach),
            starts=starts_of(batches, epochs, found.begin),
            high_watermark=found.files.high_watermark,
            is_compacted=found.is_compacted(found.saved),
        )
        text = "the leader epoch of this batch, which no checksum covers, cannot be right; it is set right"
        report_batches(
            replica,
            np.flatnonzero(batches["restamped"]).tolist(),
            paths,
            kind=Kind.LEADER_EPOCH_WRONG,
            text=text,
            report=report,
        )
        replicas.append(replica)
        believed.append(epochs)
    return replicas, believed


def begin_of(
    found: RecoveredLog, recorded: Epochs, replicas: Sequence[MergedReplica], agreements: Sequence[Agreement]
) -> tuple[int, int]:
    """Return where the first segment and the log of the leading replica begin, also where files of it are missing at
    the start: a broker records the first epoch again when it deletes old records, and leaves no index without its
    log. Of a running broker's log (one with a limit), neither says more than that it is deleting there just now."""
    if found.files.limit is not None:
        return found.begin, max(found.start, found.begin)
    offsets = [offset for _, offset in recorded[:1]]
    for entry in found.files.paths[0].orphaned_files:
        named = names.parse_segment_file(entry.name)
        if named is not None and named.state == "live":
            offsets.append(named.offset)
    if found.files.files:
        offsets.append(found.begin)
    elif not offsets:
        offsets = [replica.begin for replica in replicas if len(replica.batches)] or [found.begin]
    begin = min(offsets)
    start = max(found.start, begin)
    if begin < found.begin:
        if start == found.begin:
            starts = [*(offset for _, offset in recorded[:1]), found.files.checkpointed_start or 0]
            start = max([begin, *(offset for offset in starts if offset <= start)])
        for replica, agreement in zip(replicas, agreements, strict=True):  # another replica's batch may begin before
            inside = (
                (replica.batches["first"] < begin) & (replica.batches["last"] >= begin) & ~agreement.left_out(replica)
            )
            begin = min([begin, *replica.batches["first"][inside].tolist()])
    return begin, start


def end_of(
    replicas: Sequence[MergedReplica], agreements: Sequence[Agreement], leading: MergedReplica, filled: MergedBatches
) -> int:
    """Return where the merged log ends, or once ended."""
    ends = [leading.end, *(loss.last_offset + 1 for loss in leading.losses if loss.last_offset is not None)]
    ends += [
        replica.end
        for replica, agreement in zip(replicas, agreements, strict=True)
        if replica.last_epoch == leading.last_epoch and not agreement.left_out(replica).any()
    ]
    return max([*ends, *(filled.batches["last"][-1:] + 1).tolist()])


def report_batches(
    replica: MergedReplica, rows: Sequence[int], paths: Sequence[str], kind: Kind, text: str, report: Report
) -> None:
    for row in rows:
        each = replica.batches[row]
        report(
            kind.at(
                paths[int(each["file"])],
                text,
                severity="warning",
                position=int(each["position"]),
                offset=int(each["first"]),
            )
        )


def _recorded(files: PartitionFiles, report: Report) -> Epochs:
    """The leader epochs of a replica's checkpoint, also those that begin after what is left of the log."""
    checkpoint = files.paths[0].leader_epoch_checkpoint
    if checkpoint is None:
        return ()
    loaded = load_leader_epochs(checkpoint.location)
    for finding in loaded.findings:
        report(finding)
    epochs = () if loaded.findings else epochs_of(loaded)
    return epochs if files.limit is None else truncate_from_end(epochs, files.limit)
