"""farfield: train short, test long; predict, measure and explain length generalization in attention.

import farfield as ff

result = ff.train("rope", "offset:2", seeds=8)
print(result.accuracy[48], result.carrier, result.dilution)
result.plot("rope.png")
ff.open("runs").measurements()
"""

from farfield import encodings, models, normalizers, positions, tasks
from farfield.api import TrainResult, train
from farfield.errors import FarfieldError
from farfield.kernels import kernel
from farfield.realizability import solve as predict
from farfield.showing import show
from farfield.studies.query import open

__version__ = "0.1.0"
__all__ = [
    "FarfieldError",
    "TrainResult",
    "__version__",
    "encodings",
    "kernel",
    "models",
    "normalizers",
    "open",
    "positions",
    "predict",
    "show",
    "tasks",
    "train",
]
