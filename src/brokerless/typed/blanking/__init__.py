"""Blanks fields of values: of JSON, Avro and Protobuf, so that their own schemas still decode them."""
