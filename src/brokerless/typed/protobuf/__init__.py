"""Protobuf: schemas compiled by protoc, and payloads decoded by their message indexes.

A *descriptor* is Protobuf's for a message. *Message indexes* are before each payload, in Confluent's format, and lead
to its message in the schema. Some clients wrote them unsigned; so a *candidate* is a message that a payload may be, and
a *guess* if it is by unsigned indexes and nobody said that they are.

A *program* is a message compiled for a kernel, as in :mod:`brokerless.typed.avro`: *operations*, one for each field.
What the kernel does not take it *leaves* to be decoded row by row, such as a field that comes twice.
"""
