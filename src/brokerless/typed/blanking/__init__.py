"""Blanks fields of values: of JSON, Avro and Protobuf, so that their own schemas still decode them.

A *path* is the names of fields from the outermost one, ``customer.address.street``; a *target* is the rest of a path
within some value. A *walker* goes through the bytes of a value and finds *edits*: ranges of bytes, and what takes their
place. All other bytes stay. A field becomes null where its schema permits that, else the *empty* or *zero* value of its
type. The *presence* of a field in a value is *held* (something was there), *empty*, or *lacking* (no such field).

In the text of JSON, a *span* is where a value begins and ends, and a *route* is how it is reached: names of members and
numbers of elements. An *envelope* is JSON with its schema in it, as Connect writes it.

A *schema key* is what values of a topic name as their schema. Schemas come from a *source*: a registry, or a manifest,
in which those that were used are *recorded*. *Relatives* are other schemas of the same values, by whose names and
aliases a field is known as well.
"""
