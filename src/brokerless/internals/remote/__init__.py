"""What of tiered topics is in remote storage (KIP-405), by the metadata that brokers keep of it.

An *event* is a record of ``__remote_log_metadata``: the copy or the deletion of a segment began, or ended. The last one
gives the segment its *state*; one that the state before does not allow is *discarded*. A segment is *referenced* if
brokers read it: its copy ended, and no later copy has taken its place. A segment has *begun* if something of it may be
in remote storage, also where its copy or its deletion did not end. Readers of a log leave *unread* what was replaced or
deleted, and a copy that did not end where others have its offsets. *Tiered* is a topic whose ``remote.storage.enable``
is true.
"""
