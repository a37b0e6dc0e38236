"""Cells: what they refuse, and the identity that names their files."""

from __future__ import annotations

import dataclasses
import inspect
import json
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from farfield import training
from farfield.cell import Cell
from farfield.cell_settings import SETTINGS
from farfield.cli.train import train as train_command
from farfield.encodings import encodings
from farfield.encodings.learned import Learned
from farfield.encodings.rope import Rope
from farfield.encodings.xpos import XPos
from farfield.engine.programs import chunks
from farfield.errors import FarfieldError
from farfield.models import models
from farfield.models.head import Head
from farfield.models.transformer import Transformer
from farfield.normalizers.softmax import Softmax
from farfield.positions.shifted import Fixed
from farfield.positions.subset import RandomSubset
from farfield.study.settings import Settings as StudySettings
from farfield.tasks import tasks
from farfield.tasks.offset import FixedOffset

CELL = Cell(Rope(), FixedOffset(2)).resolved()

CHANGES = {
    "encoding": Rope(base=500.0),
    "task": FixedOffset(3),
    "seed": 1,
    "vocabulary": 21,
    "model": Head(32),
    "normalizer": Softmax(2.0),
    "positions": Fixed(1),
    "test_positions": Fixed(2),
    "shortest": 9,
    "longest": 17,
    "steps": 4001,
    "batch": 128,
    "learning_rate": 2e-3,
    "weight_decay": 1e-3,
    "path": "dense",
    "lengths": (12, 16),
    "sequences": 4095,
    "snapshots": (0, 200),
    "data_seed": 1,
    "evaluation_seed": 1,
}


def test_the_identity_of_the_default_rope_cell_never_changes():
    """Raise DATA_VERSION, and this value with it, when a change of code changes what a stored number means."""
    assert CELL.identity == "fc633bf0eb5b40c4"


def test_every_field_is_part_of_the_identity():
    assert set(CHANGES) == {field.name for field in dataclasses.fields(Cell)}
    cell = dataclasses.replace(CELL, encoding=encodings.parse("t5")).resolved()  # which has something to decay
    changed = [dataclasses.replace(cell, **{name: value}).resolved().identity for name, value in CHANGES.items()]
    assert len({cell.identity, *changed}) == len(CHANGES) + 1


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": Softmax(1)},
        {"model": models.parse("head:width=64")},
        {"path": "auto"},
        {"test_positions": None},
        {"weight_decay": 0},
        {"data_seed": 0},
        {"evaluation_seed": 0},
        {"lengths": (48, 40, 32, 24, 20, 16, 12)},
        {"encoding": encodings.parse("rope:10000")},
        {"encoding": Rope(base=10000)},
        {"task": tasks.parse("offset:offset=2")},
    ],
)
def test_two_spellings_of_one_cell_have_one_identity(changes):
    other = dataclasses.replace(CELL, **changes).resolved()
    assert other == CELL
    assert other.identity == CELL.identity


@pytest.mark.parametrize("spec", ["learned", "t5", "kerple-log", "alibi:learned=true", "cope"])
def test_weight_decay_is_for_encodings_with_parameters(spec):
    assert Cell(encodings.parse(spec), FixedOffset(2), weight_decay=0.5).resolved().weight_decay == 0.5


@pytest.mark.parametrize("spec", ["rope", "none", "alibi", "sinusoidal", "xpos", "yarn"])
def test_weight_decay_is_refused_where_there_is_nothing_to_decay(spec):
    with pytest.raises(FarfieldError, match="does nothing"):
        Cell(encodings.parse(spec), FixedOffset(2), weight_decay=0.5).resolved()


def test_a_transformer_whose_xpos_factors_overflow_is_refused_with_the_longest_that_works():
    def cell(longest: int, **changes) -> Cell:
        settings = {"encoding": XPos(16), "task": FixedOffset(2), "model": Transformer(), "path": "auto"} | changes
        return Cell(**settings, lengths=(12, longest)).resolved()

    with pytest.raises(FarfieldError, match=r"xpos:scale_base=16 .* 600 positions .* at most 536, scale_base=18 or"):
        cell(600)
    assert cell(536).path == "dense"
    assert cell(600, encoding=XPos(18)).path == "dense"
    # One query at a time has no such limit, nor have positions that start far out.
    assert cell(65536, model=Head()).path == "lookup"
    assert cell(536, positions=Fixed(10**6)).path == "dense"
    with pytest.raises(FarfieldError, match="at most 536"):
        cell(536, positions=RandomSubset(2048))


def test_a_seed_from_a_numpy_range_names_the_same_cell():
    (seed,) = np.arange(3, 4)
    assert Cell(Rope(), FixedOffset(2), seed=seed).resolved().identity == dataclasses.replace(CELL, seed=3).identity


def test_each_of_the_three_seeds_decides_its_own_draws_and_no_other():
    def drawn(**seeds):
        cell = dataclasses.replace(CELL, **seeds).resolved()
        batch = training.draw(cell.shape, cell.knobs, jnp.int32(5))
        start = training.initial_parameters(cell.shape, cell.knobs)
        keys = batch.tokens, batch.positions
        return [np.asarray(start.embedding), *map(jax.random.key_data, keys), cell.knobs.evaluation_seed]

    plain = drawn()
    expected = {"data_seed": [True, False, False, True], "evaluation_seed": [True, True, True, False]}
    for name, same in expected.items():
        assert [np.array_equal(*pair) for pair in zip(plain, drawn(**{name: 1}), strict=True)] == same
    weights = drawn(seed=1, data_seed=0, evaluation_seed=0)
    assert [np.array_equal(*pair) for pair in zip(plain, weights, strict=True)] == [False, True, True, True]
    assert not any(np.array_equal(one, other) for one, other in zip(plain, drawn(seed=1), strict=True))


def test_cells_that_differ_in_their_evaluation_seed_alone_are_trained_once():
    tested, batched = (dataclasses.replace(CELL, **{name: 1}).resolved() for name in ("evaluation_seed", "data_seed"))
    assert chunks([CELL, tested, batched]) == [[[CELL, tested]], [[batched]]]


def test_a_configuration_is_plain_json():
    config = json.loads(json.dumps(CELL.config()))
    assert config["encoding"] == {"name": "rope", "base": 10000.0, "layout": "half", "fraction": 1.0}
    assert config["task"] == {"name": "offset", "offset": 2}
    assert config["lengths"] == [12, 16, 20, 24, 32, 40, 48]
    assert Cell.from_config(config) == CELL


def test_resolving_again_changes_nothing():
    assert CELL.resolved() == CELL
    learned = Cell(Learned(), FixedOffset(2)).resolved()
    assert learned.resolved() == learned
    assert learned.encoding == Learned(49)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"steps": 0}, r"steps = 0 must be a whole number from 1 to 10000000"),
        ({"batch": -1}, r"batch = -1 must be"),
        ({"sequences": 0}, r"sequences = 0 must be"),
        ({"snapshots": 200}, r"snapshots = 200 must be a list of steps, for example \[0, 200\]"),
        ({"snapshots": (1.5,)}, r"snapshot = 1.5 must be a whole number"),
        ({"snapshots": (-1,)}, r"snapshots \[-1\] must be numbers of steps from 0 to 4000"),
        ({"snapshots": (5, 5)}, r"snapshots \[5, 5\] must be .* each larger than the one before"),
        ({"snapshots": (4001,)}, r"snapshots \[4001\] must be numbers of steps from 0 to 4000"),
        ({"snapshots": range(1001)}, r"more than 1000 snapshots"),
        ({"learning_rate": 0.0}, r"learning_rate = 0.0 must be a positive number"),
        ({"learning_rate": -1}, r"learning_rate = -1 must be a positive number"),
        ({"learning_rate": float("nan")}, r"learning_rate = nan must be"),
        ({"learning_rate": float("inf")}, r"learning_rate = inf must be"),
        ({"weight_decay": -0.1}, r"weight_decay = -0.1 must be a number from 0 up"),
        ({"learning_rate": 1e-300}, r"learning_rate = 1e-300 must be .* float32"),
        ({"learning_rate": 1e39}, r"learning_rate = 1e\+39 must be .* float32"),
        ({"learning_rate": "fast"}, r"learning_rate = 'fast' must be a number"),
        ({"weight_decay": float("nan")}, r"weight_decay = nan must"),
        ({"vocabulary": 1}, r"vocabulary = 1 must be a whole number from 2 to 1024"),
        ({"vocabulary": 1025}, r"vocabulary = 1025 must be"),
        ({"vocabulary": 1024, "longest": 4096, "batch": 1}, r"the lookup path is not possible: .*use the dense path"),
        ({"longest": 4096, "batch": 2**16, "path": "dense", "model": Head(64, 4)}, r"attention weights a step"),
        ({"seed": -1}, r"seed = -1 must be a whole number from 0 to 4294967295"),
        ({"data_seed": -1}, r"data_seed = -1 must be a whole number from 0 to 4294967295"),
        ({"evaluation_seed": 2.5}, r"evaluation_seed = 2.5 must be a whole number"),
        ({"seed": 2**32}, r"seed = 4294967296 must be"),
        ({"steps": 10**8}, r"steps = 100000000 must be a whole number from 1 to"),
        ({"model": Head(10**6)}, r"width = 1000000 must be"),
        ({"model": Head(64, 3)}, r"width = 64 does not divide into 3 heads"),
        ({"model": Head(64, 0)}, r"heads = 0 must be"),
        ({"model": Transformer(64, 1, 0)}, r"layers = 0 must be"),
        ({"model": Transformer()}, r"the lookup path is not possible: a transformer"),
        ({"batch": 2.5}, r"batch = 2.5 must be a whole number"),
        ({"shortest": 17}, r"training lengths 17:16: the shortest must come first"),
        ({"lengths": ()}, r"test lengths \[\] must be positive whole numbers, at least one"),
        ({"lengths": (0, 12)}, r"test lengths \[0, 12\] must be positive"),
        ({"lengths": (12, 12)}, r"test lengths \[12, 12\] name a length twice"),
        ({"lengths": (12, 2**24 + 1)}, r"test length 16777217 is longer than 16777216"),
        ({"task": FixedOffset(0)}, r"offset:0 must be at least 1"),
        ({"task": FixedOffset(8)}, r"offset:8 reaches outside sequences of length 8: use an offset of at most 7"),
        ({"lengths": (2, 12)}, r"offset:2 reaches outside sequences of length 2: .*lengths of at least 3"),
        ({"model": Head(63)}, r"d must be even: got d = 63"),
        ({"path": "dens"}, r"dense"),
        ({"learning_rate": True}, r"learning_rate = True must be a number"),
        ({"steps": True}, r"steps = True must be a whole number"),
        (
            {"weight_decay": 0.5},
            r"weight_decay = 0.5 does nothing: .* rope has none: leave it out, or",
        ),
    ],
)
def test_a_cell_that_cannot_run_is_refused_with_the_setting_and_the_reason(changes, reason):
    with pytest.raises(FarfieldError, match=reason) as error:
        dataclasses.replace(CELL, **changes).resolved()
    assert "\n" not in str(error.value)


def test_the_longest_offset_that_fits_is_accepted():
    assert Cell(Rope(), FixedOffset(7)).resolved().task == FixedOffset(7)


def test_every_setting_has_an_option_a_key_and_a_field_with_its_default():
    """One table declares them: see :mod:`farfield.cell_settings`."""
    options = inspect.signature(train_command).parameters
    fields = {field.name: field.default for field in dataclasses.fields(Cell)}
    for name, setting in SETTINGS.items():
        assert name in StudySettings.model_fields
        assert name == "path" or name in options
        if setting.kind == "lengths":
            assert (fields["shortest"], fields["longest"]) == setting.default
        elif setting.kind != "part":
            assert fields["lengths" if name == "test" else name] == setting.default


def test_the_table_of_settings_and_measures_is_that_of_the_code():
    """Else run `make settings`."""
    docs = Path(__file__).parents[1] / "docs"
    made = runpy.run_path(str(docs / "settings_table.py"))
    assert made["text"]() == (docs / "settings.md").read_text(encoding="utf-8")
