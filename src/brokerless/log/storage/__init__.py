"""Every file that is opened, local or through fsspec; atomic writes and the directory lock.

A *path* is text: a local path, or a URL. A *location* is a path with the options of its storage; it opens, lists and
joins, and each *entry* that it lists has a location of its own. The *identity* of a file is its inode or its ETag, by
which a replaced file is noticed. A path is *remote* if it is a URL, but not of this machine's files. It is mostly that
of an *object* in an object store, which knows neither locks nor renaming, and shows an object when it is complete.

Files are read by position. A *window* is a range of bytes that is read at once, into memory that is used again; to
*read ahead* is to request windows before they are needed. A remote file is *far* if several ranges are requested at a
time, and has *parts* if it is made of another one, as a tiered segment is of its chunks.

A *destination* is a directory that partitions are written to; a *file tree* has all other files that are written below
a directory or a prefix. A file is *unfinished* until it is complete, and *published* when it then gets its name. A file
that a user names for a result is an *output*. *Own* files are those under names of ours in directories of others, such
as a broker's: links are not followed there, and a new file belongs to the owner of the directory.

The *lock* of a log directory is Kafka's: a broker holds it while it runs, and so does whoever writes here. All of one
process share it, as its *holders*. The *mark of a clean stop* is Kafka's, too; it is away while the lock is exclusive.

The files of a partition are *settled* when no broker is about to replace any of them.
"""
