"""One log from the replicas on several brokers' disks."""
