"""farfield: train short, test long; predict, measure and explain length generalization in attention.

import farfield as ff

result = ff.train("rope", "offset:2", seeds=8)
print(result.accuracy[48], result.ways[48], result.carrier, result.dilution)
result.plot("rope.png")
ff.open("runs").measurements()
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farfield import encodings, models, normalizers, positions, tasks
    from farfield.analysis.kernels import kernel
    from farfield.analysis.show import show
    from farfield.api import TrainResult, train
    from farfield.errors import FarfieldError
    from farfield.papers.realizability.conjecture.search import search as conjecture
    from farfield.prediction import solve as predict
    from farfield.store.reader import open
    from farfield.study.file import load_study
    from farfield.study.run import run
    from farfield.study.study import Study

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
    "open",
    "positions",
    "predict",
    "run",
    "show",
    "tasks",
    "train",
]

# Imported when asked for: JAX takes a second to import, and a question to a store needs none of it.
_PLACES = {
    "FarfieldError": "farfield.errors:FarfieldError",
    "Study": "farfield.study.study:Study",
    "TrainResult": "farfield.api:TrainResult",
    "conjecture": "farfield.papers.realizability.conjecture.search:search",
    "encodings": "farfield.encodings",
    "kernel": "farfield.analysis.kernels:kernel",
    "load_study": "farfield.study.file:load_study",
    "models": "farfield.models",
    "normalizers": "farfield.normalizers",
    "open": "farfield.store.reader:open",
    "positions": "farfield.positions",
    "predict": "farfield.prediction:solve",
    "run": "farfield.study.run:run",
    "show": "farfield.analysis.show:show",
    "tasks": "farfield.tasks",
    "train": "farfield.api:train",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'farfield' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    found = importlib.import_module(module)
    globals()[name] = getattr(found, attribute) if attribute else found
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
