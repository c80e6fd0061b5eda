"""How a broker replays the records of the cluster's metadata."""
