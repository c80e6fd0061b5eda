"""What to do about each kind of finding of an audit."""

from __future__ import annotations

_SAVE = "look for these offsets on another replica; what is intact here can be read (brokerless cat, convert, load)"
_REBUILD = "harmless to the data: stop the broker and delete the segment's .index, and its next start rebuilds all"
_ONCE = (
    "delete no replica for this, as others may have less: a consumer gets each offset once, and brokerless salvage "
    "writes such a log"
)
_FILES = "check that nobody moved files here, and that all of the partition was copied"
_NOTHING = "nothing"
_TIMES = (
    "retention by time will not do what is meant: delete such records by offset (kafka-delete-records), or set "
    "retention.bytes; to keep more from coming, set message.timestamp.after.max.ms or message.timestamp.type"
)
_PRODUCER = "compare these offsets with another replica; downstream, look for records that are missing or come twice"
_REPLACE = (
    "if another replica has the partition, delete this one while the broker is down, and it is replicated again; else "
)

ADVICE = {
    # What is in the log
    "checksum-mismatch": _SAVE,
    "batch-size-invalid": _SAVE,
    "record-invalid": _SAVE,
    "magic-unknown": "brokerless salvage writes the batch as v2, which is what its records are",
    "record-count-mismatch": _SAVE,
    "message-invalid": _SAVE,
    "message-checksum-mismatch": "a consumer stops there: " + _SAVE,
    "wrapper-invalid": _SAVE,
    "decompression-failed": _SAVE,
    "limit-exceeded": "if the batch is meant to be so large, allow it with --max-batch-bytes",
    "truncated-batch": "at the end of a log: its producer never got an acknowledgement; elsewhere, " + _SAVE,
    "zero-tail": "preallocated space, which recovery cuts off where no clean stop is marked; else pages were lost: "
    + _SAVE,
    "trailing-zeros": _NOTHING,
    "batches-resume": "a broker would not come here; these batches can be read from this position on",
    "no-batches": _FILES,
    "unreadable-file": "check permissions and the disk",
    "file-shrunk": "run this again: a broker cut the file back; where none is running, find out who did",
    "unreadable-directory": "check permissions and the disk",
    "offset-order": _ONCE,
    "offset-overlap": _ONCE,
    "records-past-last-offset": "nothing is lost by it, but what overlaps: " + _ONCE,
    "offset-gap": "look for these offsets on another replica; in a compacted topic they may be gone rightly",
    "missing-segment": _REPLACE + "continue with what is left",
    "missing-log-end": _REPLACE + "continue with what is left",
    "missing-log": _REPLACE + "continue with what is left",
    "segment-overlap": _ONCE,
    "leader-epoch-order": _REPLACE + "compare it with what was produced",
    "sequence-gap": _PRODUCER,
    "sequence-repeated": _PRODUCER,
    "producer-epoch-order": _PRODUCER,
    "outside-of-transaction": "a broker would refuse to recover this log: read it into a new one (brokerless convert)",
    "marker-broken": "recovery after an unclean stop would cut the log here: " + _SAVE,
    "transaction-open": "nothing, if its producer is still at work",
    "transaction-hanging": "end it on a running cluster: kafka-transactions.sh find-hanging, then abort",
    "transaction-ongoing": "nothing, if a broker is to start here; else brokerless convert --isolation read_committed",
    "transaction-decided": "nothing, if a broker is to start here; else mind that it counts as its state says",
    "transaction-orphaned": "end it on a running cluster: kafka-transactions.sh abort, with this offset to start from",
    "timestamp-future": _TIMES,
    "timestamp-unit": _TIMES,
    "no-timestamps": "after a copy, set the files' times to those of the originals before a broker starts",
    "legacy-format": "before an upgrade to Kafka 4, brokerless convert writes it in the current format",
    # Beside the log
    "index-missing": "an offset index: nothing; a time index: delete the offset index as well, and both are rebuilt",
    "index-corrupt": _REBUILD,
    "index-not-sorted": _REBUILD,
    "index-not-trimmed": _NOTHING,
    "index-not-checked": "see what is wrong with the log",
    "offset-index-mismatch": _REBUILD,
    "time-index-mismatch": _REBUILD + "; retention by time goes by this index",
    "transaction-index-mismatch": _REBUILD,
    "producer-snapshot-corrupt": "nothing: a broker drops it and reads the log instead",
    "producer-snapshot-mismatch": "stop the broker and delete the .snapshot files: it reads the log instead",
    "producer-snapshot-beyond-end": "nothing: a broker drops it at its next start; but see why the log is so short",
    "leader-epoch-mismatch": _REPLACE + "stop the broker and correct the file: a line for each epoch's first offset",
    "leader-epoch-beyond-end": "nothing: a broker drops the entry at its next start; but see why the log is so short",
    "leader-epoch-checkpoint-missing": "nothing: replicas then go by high watermarks",
    "checkpoint-corrupt": "delete the file while the broker is down; it then starts without what was recorded there",
    "checkpoint-not-sorted": "nothing: a broker drops what does not fit",
    "partition-metadata-corrupt": "a broker does not start with it: take it from another replica",
    "partition-metadata-missing": "take it from another partition of the topic: brokerless rebuild writes it by the "
    "cluster's metadata",
    "setting-refused": "before an upgrade, change it with kafka-configs to a value that the newer Kafka takes",
    "directory-name": "move it out of the log directory before a broker starts",
    "file-name": "move it out of the partition's directory before a broker starts",
    "bootstrap-checkpoint": "a broker does not start with it: brokerless rebuild writes the directory again",
    "meta-properties-incomplete": "a broker does not start with it: write node.id and cluster.id again",
    "directory-id-reserved": "delete the line of directory.id while the broker is down; it chooses another one",
    "record-inapplicable": "brokerless rebuild writes the cluster's metadata again from what is left",
    "meta-properties-corrupt": "a broker does not start with it: take cluster.id and node.id from where they are known",
    "meta-properties-missing": "nothing, if this is a copy of some partitions",
    "quorum-state-corrupt": "see KRaft's other voters; a voter without it may vote twice in an epoch",
    "topic-id-mismatch": "a broker refuses one of them: find out which one is the topic's, and move the other away",
    # What Kafka's own topics say
    "topic-unknown": "copy it before a broker starts; to serve it again, make the topic and write it with that ID "
    "(brokerless load --topic-id)",
    "replica-elsewhere": "see that its replicas are intact before a broker starts, which puts this one away",
    "replica-missing": "if other replicas are lost too, look for this directory before a broker creates it, empty",
    "group-offset-beyond-end": "reset the group to where the log ends, or it starts over by auto.offset.reset",
    "group-offset-before-start": _NOTHING,
    "group-lag": _NOTHING,
    # Files and directories
    "leftover-file": _NOTHING,
    "swap-file": "nothing: the next start of a broker puts it in its place",
    "orphan-index": "nothing, unless its log was lost: " + _FILES,
    "foreign-file": "nothing; move it away if it is in the way",
    "stray-directory": "make sure that the topic is elsewhere, then delete it; or read it (--include stray)",
    "future-directory": "nothing, if a broker is still to finish the move",
    "deleted-directory": "copy it now if it was deleted by mistake (--include delete reads it)",
    "unfinished-directory": "delete it, unless the job still runs; a broker does so at its next start",
    "partition-missing": _FILES + "; a broker takes the partition for new, and empty",
    # The log directory's metadata files
    "recovery-point-beyond-end": _SAVE,
    "high-watermark-beyond-end": _SAVE,
    "log-start-beyond-end": "do not start a broker on this; copy it, and " + _SAVE,
    "cleaner-checkpoint-beyond-end": "nothing: a broker compacts again; but see why the log is so short",
    "log-start-before-segments": _FILES + "; of a tiered topic, these offsets are in remote storage",
    "remote-offsets": "nothing is wrong with the log: these offsets are in an object store, which is not read here",
    "high-watermark-before-start": _FILES,
    "broker-running": "for an exact answer, stop the broker or audit a snapshot of its disk",
    "unclean-stop": "brokerless restart says what the next start would do",
}
"""By the finding's kind."""
