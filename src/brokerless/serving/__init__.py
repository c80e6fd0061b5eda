"""A read-only Kafka endpoint over log directories: every Kafka client reads them.

A *request* of a client is answered by one module of ``answers``, whose head says which versions, and what is left out.
The *source* is what is served: topics, partitions and their ranges of files. A *spare* is another replica of a
partition, served where the one that leads is damaged. A *budget* bounds the bytes of requests and answers; *admission*
is which connections stay where there are as many as may be. *Access* is what the cluster's ACLs allow a user.
"""
