"""Messages of Kafka's protocol, by tables: records of its own topics, control records, requests and responses.

``layouts`` has the fields of a message and how they are named; ``reader`` and ``writer`` know how fields of any type
are laid out: plain and flexible versions (KIP-482), tagged fields, nullable ones. Values are those of Kafka's generated
``*JsonConverter`` classes (4.4.0): a ``uuid`` is URL-safe base64 without padding, ``bytes`` are base64, a tagged field
is left out where it has its default. Only ``records``, which no JSON has, are bytes.
"""
