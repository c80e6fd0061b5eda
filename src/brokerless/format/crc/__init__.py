"""CRC-32 (message formats v0 and v1) and CRC-32C (v2)."""
