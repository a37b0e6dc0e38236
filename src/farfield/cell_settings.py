"""The settings of a cell, each declared once, as users write them.

From this table come the limits that :class:`farfield.cell.Cell` checks, the options of ``farfield train``, the keys of
a study file with their JSON schema, and the table in docs/studies.md. Free of JAX, because ``--help`` needs it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

SettingKind = Literal["part", "whole", "real", "lengths", "whole numbers", "path"]


class CellSetting(NamedTuple):
    """One setting.

    Attributes:
        help: what it is, in a sentence.
        kind: a ``part`` is the entry of a registry, ``lengths`` are the shortest and longest training length, ``path``
            is how logits are computed.
        default: as a cell has it; of encoding and task, as ``farfield train`` has it.
        low, high: least and most of a whole number, or of each of several.
        more: for the command line, beside the help.
        example: of a part, with its settings.
    """

    help: str
    kind: SettingKind
    default: Any
    low: int = 0
    high: int = 0
    more: str = ""
    example: str = ""


# The most keep a slip of the keyboard from filling memory.
LONGEST_TRAINING, LONGEST_TEST = 4096, 2**24
MOST_STEPS, MOST_SEED = 10**7, 2**32 - 1

SETTINGS = {
    "encoding": CellSetting(
        "Encoding with its settings.",
        "part",
        "rope",
        more="As in rope, rope:base=500000, learned, learned:rows=64.",
        example="rope:base=500000",
    ),
    "task": CellSetting(
        "Task with its settings.",
        "part",
        "offset:1",
        more="offset:K copies the token K before the query.",
        example="offset:2",
    ),
    "model": CellSetting(
        "Model with its settings.",
        "part",
        "head",
        more="As in head:heads=4, positional, transformer:layers=2,heads=4,width=192.",
        example="head:heads=4",
    ),
    "normalizer": CellSetting(
        "What turns logits into attention weights.",
        "part",
        "softmax",
        more="As in softmax:temperature=0.5, ssmax, entmax, linear.",
        example="softmax:temperature=0.5",
    ),
    "positions": CellSetting(
        "Integers that tokens are given in training.",
        "part",
        "fixed",
        more="As in fixed, random-start:2048, random-subset:2048, coupled.",
        example="random-subset:2048",
    ),
    "test_positions": CellSetting(
        "The same in tests; as in training if left out.",
        "part",
        None,
        more="Also interpolate, clamp or rescale for tables.",
        example="random-subset:2048",
    ),
    "lengths": CellSetting(
        "Training lengths, SHORTEST:LONGEST.",
        "lengths",
        (8, 16),
        1,
        LONGEST_TRAINING,
    ),
    "test": CellSetting(
        "Test lengths.", "whole numbers", (12, 16, 20, 24, 32, 40, 48), 1, LONGEST_TEST, example="16,48"
    ),
    "vocabulary": CellSetting("Number of tokens.", "whole", 20, 2, 1024),
    "steps": CellSetting("Optimizer steps.", "whole", 4000, 1, MOST_STEPS),
    "batch": CellSetting("Sequences a step.", "whole", 256, 1, 2**16),
    "learning_rate": CellSetting("Learning rate of Adam.", "real", 1e-3),
    "weight_decay": CellSetting("Coupled L2 on the encoding's own parameters.", "real", 0.0),
    "sequences": CellSetting("Test sequences a length.", "whole", 4096, 1, 2**20),
    "snapshots": CellSetting(
        "Steps after which weights are kept as well.",
        "whole numbers",
        (),
        0,
        MOST_STEPS,
        example="0,200,1000",
    ),
    "path": CellSetting(
        "How logits are computed: by lookup, densely, or auto for the lookup where it is exact.",
        "path",
        "auto",
    ),
}
