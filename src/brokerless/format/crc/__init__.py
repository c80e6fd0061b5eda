"""CRC-32 (message formats v0 and v1) and CRC-32C (v2): compiled in `kernels`, without Numba in `plain`."""
