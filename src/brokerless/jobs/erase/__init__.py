"""Some records removed from whole logs, all others unchanged at their offsets; with a signed manifest.

A *selection* says which records are erased: by keys, by a header, or by a condition of SQL. A *matcher* finds these
*selected* records among decoded ones. They are *removed*, or *blanked*: then the record stays, and its value, or some
fields of it, become null. A selected value may lack a field that was named, or have it *empty*; all that are *lacking*
it are counted, as what was to be erased may have another name there.

A batch is *touched* if a selected record in it was removed or changed: it is rebuilt. All others are *untouched*, and
their bytes stay. What a touched batch has besides is known by a *digest*, a SHA-256 that is the same before and after.
An *edit* is a place of a blanked value: how many bytes were removed there, and the new ones.

The *manifest* is a JSON file that says what was read, erased and written; its *signature* is a file next to it. It has
no erased value: of the selection it has a *commitment*, a slow hash with a random salt, and records are their offsets.
A partition that an earlier run of the same request committed is *finished*; one with damage is *not written*.

A *copy* is a place that the erasure does not change and that may hold selected records: a deleted or stray directory,
another topic, a file that is not Kafka's. The *replicas* of a partition, in several of the log directories that are
erased together, are compared afterwards. Kafka's own topics are *copied* unchanged unless they are named.
"""
