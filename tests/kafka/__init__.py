"""A real Kafka for tests: its jars, its own readers as oracles, a broker, and several clients that produce.

``jars`` fetches them and runs Java; ``oracle`` asks Kafka's reader and dump tool about files; ``broker`` starts a
broker on this machine's loopback; ``producers`` writes to it with librdkafka, aiokafka and Kafka's own producer.
"""
