"""farfield: train short, test long; predict, measure and explain length generalization in attention.

import farfield as ff

result = ff.train("rope", "offset:2", seeds=8)
print(result.accuracy[48], result.ways[48], result.carrier, result.dilution)
result.plot("rope.png")
ff.predict("rope", "offset:3", tested=64).alpha

study = ff.load_study("study.toml")
run = ff.run(study, out="runs")
ff.report(run.folder)
ff.open_store(run.folder).measurements("accuracy")
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farfield import encodings, models, normalizers, positions, tasks, testing
    from farfield.analysis.kernels import kernel
    from farfield.analysis.show import show
    from farfield.api import TrainResult, train
    from farfield.cell import Cell
    from farfield.encodings import Encoding
    from farfield.engine.progress import Progress
    from farfield.errors import EngineError, FarfieldError, StorageError
    from farfield.intervals import Estimate
    from farfield.models import Model
    from farfield.normalizers import Normalizer
    from farfield.papers.named import reproduce
    from farfield.papers.realizability.conjecture.search import search as conjecture
    from farfield.papers.reproduce import Reproduction
    from farfield.positions import Regime
    from farfield.prediction.atlas import atlas
    from farfield.prediction.predict import Prediction, predict
    from farfield.registry import traced
    from farfield.reporting.report import Report, report
    from farfield.results.result import CellResult
    from farfield.seeds.summary import Summary
    from farfield.store.reader import Store, open_store
    from farfield.study.file import load_study
    from farfield.study.plan import Plan, plan
    from farfield.study.run import StudyRun, run
    from farfield.study.study import Study
    from farfield.tasks import Positional, Task

__version__ = "0.1.0"

# Where every public name is. They are imported when asked for: JAX takes a second to import, and a question to a store
# needs none of it.
_PLACES = {
    "Cell": "farfield.cell:Cell",
    "CellResult": "farfield.results.result:CellResult",
    "Encoding": "farfield.encodings:Encoding",
    "EngineError": "farfield.errors:EngineError",
    "Estimate": "farfield.intervals:Estimate",
    "FarfieldError": "farfield.errors:FarfieldError",
    "Model": "farfield.models:Model",
    "Normalizer": "farfield.normalizers:Normalizer",
    "Plan": "farfield.study.plan:Plan",
    "Positional": "farfield.tasks:Positional",
    "Prediction": "farfield.prediction.predict:Prediction",
    "Progress": "farfield.engine.progress:Progress",
    "Regime": "farfield.positions:Regime",
    "Report": "farfield.reporting.report:Report",
    "Reproduction": "farfield.papers.reproduce:Reproduction",
    "StorageError": "farfield.errors:StorageError",
    "Store": "farfield.store.reader:Store",
    "Study": "farfield.study.study:Study",
    "StudyRun": "farfield.study.run:StudyRun",
    "Summary": "farfield.seeds.summary:Summary",
    "Task": "farfield.tasks:Task",
    "TrainResult": "farfield.api:TrainResult",
    "atlas": "farfield.prediction.atlas:atlas",
    "conjecture": "farfield.papers.realizability.conjecture.search:search",
    "encodings": "farfield.encodings",
    "kernel": "farfield.analysis.kernels:kernel",
    "load_study": "farfield.study.file:load_study",
    "models": "farfield.models",
    "normalizers": "farfield.normalizers",
    "open_store": "farfield.store.reader:open_store",
    "plan": "farfield.study.plan:plan",
    "positions": "farfield.positions",
    "predict": "farfield.prediction.predict:predict",
    "report": "farfield.reporting.report:report",
    "reproduce": "farfield.papers.named:reproduce",
    "run": "farfield.study.run:run",
    "show": "farfield.analysis.show:show",
    "tasks": "farfield.tasks",
    "testing": "farfield.testing",
    "traced": "farfield.registry:traced",
    "train": "farfield.api:train",
}

__all__ = [
    "Cell",
    "CellResult",
    "Encoding",
    "EngineError",
    "Estimate",
    "FarfieldError",
    "Model",
    "Normalizer",
    "Plan",
    "Positional",
    "Prediction",
    "Progress",
    "Regime",
    "Report",
    "Reproduction",
    "StorageError",
    "Store",
    "Study",
    "StudyRun",
    "Summary",
    "Task",
    "TrainResult",
    "__version__",
    "atlas",
    "conjecture",
    "encodings",
    "kernel",
    "load_study",
    "models",
    "normalizers",
    "open_store",
    "plan",
    "positions",
    "predict",
    "report",
    "reproduce",
    "run",
    "show",
    "tasks",
    "testing",
    "traced",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'farfield' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    found = importlib.import_module(module)
    globals()[name] = getattr(found, attribute) if attribute else found
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
