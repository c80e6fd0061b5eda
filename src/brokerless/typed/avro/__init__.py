"""Avro: schemas, and payloads decoded into Arrow columns by a program for each schema.

A *type* is one node of a parsed schema. The *writer's* schema is the one that a payload names; the *reader's* is the
newest of the topic, whose defaults and aliases count. A *target* is the Arrow type to decode into. It may be wider than
the schema, as it holds what all schemas of a topic write. A *branch* is one of the types of a union; a union of several
becomes a struct with a field for each.

A *program* is a writer's schema for one target, compiled for a kernel: *operations*, one for each type, with their
*kids*, the operations of the types in it. *Constants* are values that are in no payload: defaults of fields and symbols
of enums. The *output* is the columns that the kernel fills, and a *fill* is the null that columns get where a payload
has nothing for them. What no program can read, such as a type within itself, is decoded *row by row*.

A field is one *column* through all versions of its schema, whatever aliases call it later.
"""
