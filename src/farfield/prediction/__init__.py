"""Prediction without training: which positional kernel the trained rows select, and whether it carries over.

:func:`predict` answers for an encoding and a task. The parts: ``encodings`` (Phi of each encoding), ``grid`` (the rows
of a task), ``margin`` (the quadratic program), ``selection`` (the selected kernel, the static bound), ``transfer``
(alpha_L and the theorems), ``openness`` and ``initial`` (what the trained rows leave undecided).

Definitions are this project's own reading (docs/realizability.md) of the abstract of "A Positional Realizability
Theory of Length Generalization in Single-Head Attention".
"""

from farfield.prediction.atlas import atlas, carrying_over
from farfield.prediction.feature_maps import feature_map
from farfield.prediction.features import FeatureMap
from farfield.prediction.predict import Prediction, predict

__all__ = ["FeatureMap", "Prediction", "atlas", "carrying_over", "feature_map", "predict"]
