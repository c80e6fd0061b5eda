"""Producer state: sequences, transactions, markers, snapshots.

A *producer* is an id and an epoch; its *sequences* number its batches, so that a repeated one is known. A *transaction*
is *open* from its first batch to its *marker*, a control record that commits or aborts it. Offsets of consumers that
read committed records end at the *last stable offset*, before the first open transaction. A *snapshot* has the state of
all producers at an offset, from which a broker goes on at its start.
"""
