"""Producer state: sequences, transactions, markers, snapshots."""
