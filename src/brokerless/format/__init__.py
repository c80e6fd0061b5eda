"""Bytes to columns and back: buffers in, arrays out. Opens no file, prints nothing, knows no Spark.

A *layout* is a NumPy dtype that is the specification of some bytes. *Magic* is the version of a batch: v0 and v1 are
single *messages*, of which a compressed one is the *wrapper* of others; v2 is a batch of *records*. Columns are a
struct of arrays, which kernels fill and Arrow takes without a copy. A *kernel* is one loop that Numba compiles: it
checks every bound, allocates nothing and raises nothing.
"""
