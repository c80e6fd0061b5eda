"""Segments of tiered storage (KIP-405) in object stores, as a log directory."""
