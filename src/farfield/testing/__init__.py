"""The rules that every encoding, task, normalizer, position regime and model of the package keeps, for your own too.

>>> from farfield.testing import check_encoding
>>> from farfield.encodings import encodings
>>> check_encoding(encodings.get("rope"))

Each function runs every rule of its kind on one entry and raises one :class:`BrokenRule` that has a line for each rule
that the entry breaks. ``ENCODING_RULES`` and its like map the name of each rule to the rule, whose ``sentence`` says
what it demands.

The rules run under farfield's own settings of JAX. Beyond these, arrays of different types or numbers of axes may not
meet without a cast or a new axis, since both hide mistakes; float64 parts are free of the first. An entry need not be
registered, but the rule ``configuration`` needs a name: it is left out until the class is decorated with ``register``.
"""

from farfield.testing._rules import Broken, BrokenRule, Rule
from farfield.testing.encodings import ENCODING_RULES, check_encoding
from farfield.testing.models import MODEL_RULES, check_model
from farfield.testing.normalizers import NORMALIZER_RULES, check_normalizer
from farfield.testing.positions import POSITION_RULES, check_positions
from farfield.testing.tasks import TASK_RULES, check_task

__all__ = [
    "ENCODING_RULES",
    "MODEL_RULES",
    "NORMALIZER_RULES",
    "POSITION_RULES",
    "TASK_RULES",
    "Broken",
    "BrokenRule",
    "Rule",
    "check_encoding",
    "check_model",
    "check_normalizer",
    "check_positions",
    "check_task",
]
