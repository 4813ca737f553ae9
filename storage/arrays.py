"""Array types that annotations share. The shape of an array is in its docstring or in a comment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
