"""What of tiered topics is in remote storage (KIP-405), by the metadata that brokers keep of it."""
