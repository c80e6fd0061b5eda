"""Names of the types of arrays that columns are kept in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Uint8s = NDArray[np.uint8]

RowNumbers = NDArray[np.int64]
"""Which rows of other columns, by their numbers."""
