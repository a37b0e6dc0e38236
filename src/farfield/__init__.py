"""farfield: train short, test long; predict, measure and explain length generalization in attention.

import farfield as ff

result = ff.train("rope", "offset:2", seeds=8)
print(result.accuracy[48], result.carrier, result.dilution)
result.plot("rope.png")
"""

from farfield import encodings, models, normalizers, positions, tasks
from farfield.api import TrainResult, train
from farfield.errors import FarfieldError
from farfield.kernels import kernel
from farfield.realizability import solve as predict
from farfield.realizability.conjecture import search as conjecture
from farfield.showing import show
from farfield.studies.study import Study
from farfield.studies.study_file import load_study

__version__ = "0.1.0"
__all__ = [
    "FarfieldError",
    "Study",
    "TrainResult",
    "__version__",
    "conjecture",
    "encodings",
    "kernel",
    "load_study",
    "models",
    "normalizers",
    "positions",
    "predict",
    "show",
    "tasks",
    "train",
]
