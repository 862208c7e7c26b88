"""Types of arrays."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Int8s = npt.NDArray[np.int8]
