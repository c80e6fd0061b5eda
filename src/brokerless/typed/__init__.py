"""Typed values: keys and values decoded by their schemas, offline, as Arrow columns.

A *schema* is Avro, Protobuf or JSON Schema; a *registry* has them by id and by *subject*, as the topic ``_schemas``
keeps them. The *framing* of a value is the magic byte and the id, or what an older tool wrote, by which it names its
schema. A *topic type* is what the keys and values of a topic become, merged over all schemas that they name. *Blanking*
makes fields of a value null and leaves all other bytes unchanged.
"""
