"""Segments written as objects of tiered storage, in the layout of Aiven's plugin."""
