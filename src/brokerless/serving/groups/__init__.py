"""Consumer groups in memory: members, generations, and committed offsets."""
