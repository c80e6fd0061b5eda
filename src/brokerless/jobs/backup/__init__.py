"""Backs up the disks of a cluster into a bucket in the layout of tiered storage, one copy of each batch.

A run stores what is new of the replica that counts, as segments with bounds of its own; what no replica has intact is
*lost*, and a partition that no disk has is *missing*. A *data key* encrypts what one run stores; it is kept encrypted
for each *key pair* whose private key is to read it.
"""
