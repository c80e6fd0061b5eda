"""The metadata of a KRaft cluster: its records replayed to a state, and a state written as a snapshot."""
