"""Avro: schemas, and payloads decoded into Arrow columns by a program for each schema."""
