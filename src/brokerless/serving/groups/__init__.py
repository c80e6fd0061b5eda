"""Consumer groups in memory: members, generations, and committed offsets.

The *classic* protocol is that of JoinGroup and SyncGroup, where a member assigns partitions; a *consumer* group is one
of KIP-848, where the coordinator does. States and *generations* or *epochs* are Kafka's. The *target* of a consumer
group is what its members are to have; each member goes towards it by itself. An *assignor* makes a target. The
*coordinator* has all groups, those of the dead cluster among them, whose members are gone. *Room* bounds the memory for
what clients say of members, groups and offsets.
"""
