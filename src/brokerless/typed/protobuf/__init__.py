"""Protobuf: schemas compiled by protoc, and payloads decoded by their message indexes."""
