"""What several test files need: small cells, example encodings, and a head's logits by the three hooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from farfield import training
from farfield.cell import PARTS, Cell
from farfield.encodings import Encoding, encodings
from farfield.models import Forward, Inputs, Mechanism, models
from farfield.models.head import Head
from farfield.models.parameters import HeadParameters
from farfield.normalizers import Normalizer, normalizers
from farfield.normalizers.softmax import Softmax
from farfield.positions import regimes
from farfield.registry import Registry, traced
from farfield.results.result import CellResult
from farfield.tasks import tasks
from farfield.testing._encoding_trial import (  # noqa: F401 (for the test files)
    LONGEST,
    TRAINED,
    WIDTH,
    Parameters,
    drawn_parameters,
    pair_logits,
    vectors,
)
from farfield.testing._programs import double_precision, drawn, quick_jit, traced_fields  # noqa: F401
from farfield.testing.positions import CoupledPairs  # noqa: F401
from farfield.training import Knobs

own: Registry[Encoding] = Registry("encoding")


@own.register("triangle")
@dataclass(frozen=True)
class Triangle(Encoding):
    """The example of the documentation: a user's own encoding with one method."""

    slope: float = traced(0.5)

    def bias(self, parameters, query_positions, key_positions, content):
        distance = query_positions[:, None] - key_positions[None, :]
        return -self.slope * distance.astype(float)


@own.register("all-hooks")
@dataclass(frozen=True)
class AllHooks(Encoding):
    """Adds a vector, scales queries and keys by position, and adds a bias, each with its own parameter."""

    rows: int = 64

    relative = False

    def initialize(self, key, width):
        return {"table": jax.random.normal(key, (self.rows, width))}

    def initialize_head(self, key, width):
        return {"scale": jnp.linspace(0.5, 1.5, width), "slope": jnp.asarray(0.3)}

    def embed(self, parameters, positions):
        return parameters["table"][positions]

    def rotate(self, parameters, query, key, query_positions, key_positions):
        def turned(x, positions):
            angle = positions.astype(x.dtype)[..., None] * parameters["scale"].reshape((1,) * positions.ndim + (-1,))
            angle = angle.reshape((1,) * (x.ndim - angle.ndim) + angle.shape)
            return x * jnp.cos(angle) + jnp.roll(x, 1, axis=-1) * jnp.sin(angle)

        return turned(query, query_positions), turned(key, key_positions)

    def bias(self, parameters, query_positions, key_positions, content):
        distance = (query_positions[:, None] - key_positions[None]).astype(parameters["slope"].dtype)
        return -parameters["slope"] * jnp.sqrt(jnp.abs(distance) + 1)


def name_of(spec: str) -> str:
    """The name that a spec starts with."""
    return spec.partition(":")[0]


def registry_of(spec: str) -> Registry[Encoding]:
    """Where a spec's encoding is registered: the package, or this file."""
    return own if name_of(spec) in own else encodings


def parsed(spec: str) -> Encoding:
    """A registered encoding, or one of this file's own."""
    return registry_of(spec).parse(spec)


def example(spec: str, longest: int) -> Encoding:
    """A registered encoding, or one of this file's own, ready for positions 0 .. longest."""
    return parsed(spec).resolved(TRAINED, longest)


def ready(spec: str, longest: int = LONGEST, width: int = WIDTH, seed: int = 0) -> tuple[Encoding, Parameters]:
    """An encoding for positions 0 .. longest, and its parameters."""
    encoding = example(spec, longest)
    encoding.check(width, longest)
    return encoding, drawn_parameters(encoding, width, seed)


def as_arrays(encoding: Encoding) -> Encoding:
    """The encoding with its settings as a compiled program has them, so that one program serves all settings."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), encoding)


def assert_finite(tree: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        assert np.isfinite(leaf).all(), path


def needs_nothing(name: str) -> bool:
    """Whether an encoding's name alone says enough."""
    return not any(
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        for field in dataclasses.fields(encodings[name])  # pyright: ignore[reportArgumentType]
    )


# Every registered encoding with its defaults, and settings that change what it computes.
SPECS = [
    *filter(needs_nothing, encodings),
    "rope:base=100",
    "rope:layout=interleaved",
    "alibi:slope=-0.5",
    "alibi:slope=0.5,symmetric=true",
    "alibi:rule=geometric,slope=2",
    "alibi:rule=zero-based,before_scaling=true",
    "alibi:learned=true",
    "t5:buckets=8,distance=20",
    "t5:bidirectional=true,deviation=1",
    "clipped:reach=3",
    "key-only:deviation=1",
    "shaw:reach=2",
    "transformer-xl:base=100",
    "kerple-power:power=1.5",
    "fire:threshold=2,scale=1",
    "cope:rows=5,deviation=1",
    "rope:fraction=0.5",
    "rope:fraction=0.5,layout=interleaved",
    "p-rope:share=0.5,layout=interleaved",
    "sinusoidal:layout=concatenated",
    "position-interpolation:layout=interleaved",
    "ntk:layout=interleaved",
    "dynamic-ntk:factor=4,original_length=8",
    "yarn:original_length=2048",
    "yarn:truncate=false,attention_factor=1.5",
    "llama3:original_length=0",
    "longrope:original_length=8,attention_factor=1",
    "xpos:layout=interleaved",
    "xpos:scale_base=16",
]
# The documentation's example of a user's own encoding must do what those of the package do.
ALL_SPECS = [*SPECS, "triangle"]


def the_rest_slow(every: Iterable[str], quick: Iterable[str]) -> list[Any]:
    """Parameters of a test of which the default suite runs a part, and `make test-slow` the rest."""
    quick = set(quick)
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in every]


RELATIVE_SPECS = [spec for spec in ALL_SPECS if parsed(spec).relative]
ABSOLUTE_SPECS = [spec for spec in ALL_SPECS if not parsed(spec).relative]
# Those whose frequencies follow the length in use.
LENGTH_SPECS = [spec for spec in SPECS if parsed(spec).reads_length]
# Those whose logits may be looked up by the query's and the key's token.
PAIRWISE_SPECS = [spec for spec in SPECS if not parsed(spec).reads_context]

# Rows of tables that no offset reads, by spec and parameter.
UNREAD_ROWS = {
    # The future's half of T5's buckets starts with one for the offset 0, which is in the past's.
    "t5:bidirectional=true,deviation=1": {"bias": 16},
}


def drawn_head(
    encoding: Encoding, vocabulary: int, width: int, seed: int, *, model: Head | None = None, normalizer: Any = None
) -> HeadParameters:
    """A head with all parameters drawn anew, so that its logits are far from uniform."""
    model = dataclasses.replace(model or Head(), width=width)
    mechanism = Mechanism(encoding, normalizer or Softmax())
    parameters = drawn(lambda key: model.initialize(key, mechanism, vocabulary), seed)
    shrink = float(np.sqrt(width))
    attention = parameters.attention
    scaled = {name: getattr(attention, name) / shrink for name in ("query", "key", "value")}
    attention = dataclasses.replace(attention, **scaled)
    return dataclasses.replace(parameters, attention=attention, readout=parameters.readout / shrink)


def head_forward(path: Any, *, model: Any = "head", rows: Any = "last") -> Any:
    """Forward pass of a model at consecutive positions: (parameters, encoding, normalizer, tokens, length)."""
    model = models.parse(model) if isinstance(model, str) else model

    def forward(
        parameters: HeadParameters, encoding: Encoding, normalizer: Normalizer, tokens: Any, length: Any
    ) -> Forward:
        # The sizes of the model that only initialization reads do not matter here.
        inputs = Inputs(tokens, jnp.arange(len(tokens)), length)
        return model.forward(parameters, Mechanism(encoding, normalizer), inputs, rows, path)

    return forward


def small_cell(encoding: str = "rope", task: str = "offset:2", **changes: Any) -> Cell:
    """A resolved cell that trains in a fraction of a second; all that share an encoding share a program."""
    settings: dict[str, Any] = {
        "steps": 400,
        "learning_rate": 3e-3,
        "batch": 128,
        "sequences": 512,
        "lengths": (12, 16, 24, 48),
    }
    parts = {"encoding": encoding, "task": task} | {name: changes.pop(name) for name in PARTS if name in changes}
    parts = {name: PARTS[name].parse(part) if isinstance(part, str) else part for name, part in parts.items()}
    return Cell(**parts, **(settings | changes)).resolved()


def make_knobs(encoding: Encoding, *, task: str = "offset:2", **changes: Any) -> Knobs:
    """Knobs at the default precision, all leaves arrays."""
    settings: dict[str, Any] = {"shortest": 4, "learning_rate": 1e-2, "weight_decay": 0.0}
    normalizer = normalizers.parse(changes.pop("normalizer", "softmax"))
    positions = regimes.parse(changes.pop("positions", "fixed"))
    settings |= changes
    knobs = Knobs(
        seed=jnp.uint32(seed := settings.pop("seed", 0)),
        data_seed=jnp.uint32(seed),
        evaluation_seed=jnp.uint32(seed),
        encoding=encoding,
        task=settings.pop("task_object", None) or tasks.parse(task),
        normalizer=normalizer,
        positions=positions,
        test_positions=positions,
        shortest=jnp.int32(settings.pop("shortest")),
        **{name: jnp.asarray(value, float) for name, value in settings.items()},
    )
    return jax.tree.map(jnp.asarray, knobs)


def assert_same_bits(one, other):
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=str(path))


def cells_of(chunk: Any) -> list[Cell]:
    """Every cell of a chunk of a run."""
    return [cell for lane in chunk for cell in lane]


def untrained(cell: Cell) -> CellResult:
    """A result from initial weights and drawn tests, for what reads results and does not make them."""
    cell = cell.resolved()
    random = np.random.default_rng(cell.seed)
    parameters = jax.tree.map(
        np.asarray, quick_jit(training.initial_parameters, static_argnums=0)(cell.shape, cell.knobs)
    )
    lengths, heads = len(cell.lengths), len(cell.model.head_names)
    places = np.arange(max(cell.lengths))[None, None]
    weights = random.exponential(size=(lengths, heads, max(cell.lengths))) * (
        places < np.array(cell.lengths)[:, None, None]
    )
    correct = random.integers(1, cell.sequences, lengths)
    return CellResult(
        cell=cell,
        parameters=parameters,
        losses=random.uniform(size=cell.steps).astype(np.float32),
        correct=correct,
        tested=np.full(lengths, cell.sequences),
        unanswered=np.zeros(lengths, int),
        correct_sequences=random.integers(1, cell.sequences, lengths),
        clusters=np.full(lengths, cell.sequences),
        wrong_moments=np.zeros((lengths, 2, 3), np.float32),  # of no account where every sequence is a cluster
        head_attention=(weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32),
        head_attention_error=np.zeros_like(weights, np.float32),
        head_target_attention=random.uniform(size=(lengths, heads)).astype(np.float32),
        head_selected=random.uniform(size=(lengths, heads)).astype(np.float32),
        head_wrong_selected=random.integers(0, cell.sequences - correct + 1, (heads, lengths)).T,
        snapshots=jax.tree.map(lambda leaf: np.stack([leaf] * len(cell.snapshots)), parameters)
        if cell.snapshots
        else None,
    )


def train_at_once(shape: training.Shape, knobs: Knobs) -> training.Run:
    """A whole training run as one program."""
    run, draws = training.begin(shape, knobs)
    return training.advance(shape, knobs, draws, run, 0, shape.steps)
