"""Settings and fixtures that every test file shares.

Rank promotion raises everywhere. Implicit dtype promotion raises where a test asks for `strict_dtypes`: float32
tests outside training do. Training cannot, since optax's own Adam raises a float to an integer power.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import jax
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

import helpers.typed  # noqa: F401 (the hook looks it up by its name)

# Annotations of what computes on arrays are checked in every call. The hook comes before the first import of farfield.
CHECKED = ("evaluation", "models", "probes", "training")
install_import_hook([f"farfield.{name}" for name in CHECKED], "helpers.typed.checked")

from farfield.engine.scheduler import run
from farfield.results.result import CellResult
from helpers.support import double_precision, small_cell

jax.config.update("jax_numpy_rank_promotion", "raise")

# No deadline, since the first example of a shape compiles; fixed examples, so that a run can be repeated.
settings.register_profile(
    "farfield",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("farfield")


# Compiling is most of what the suite costs. What takes longer than this is kept for the run.
SECONDS_TO_KEEP = 0.2


def pytest_configure(config: pytest.Config) -> None:
    """Let every worker and every command that a test starts find the programs that another one has compiled.

    In a folder of this run alone, so that nothing is taken from an earlier one.
    """
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.mkdtemp(prefix="farfield-programs-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(SECONDS_TO_KEEP)
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", SECONDS_TO_KEEP)


# Of the cases of each test in these files, or of each rule where a test runs them, the default suite runs one in so
# many, not the same in every test, so that each entry of a registry meets most of them: `make test-slow` has the rest.
ONE_IN = {
    "test_combinations": 4,
    "test_conformance_of_encodings": 5,
    "test_conformance_of_models": 5,
    "test_conformance_of_normalizers": 4,
    "test_conformance_of_positions": 4,
    "test_conformance_of_tasks": 4,
    "test_counting": 2,
    "test_encodings_settings": 4,
    "test_evaluation": 2,
    "test_far_positions": 3,
    "test_learned": 2,
    "test_lookup_equals_dense": 5,
    "test_masks": 4,
    "test_normalizer_values": 3,
    "test_papers": 3,
    "test_position_values": 4,
    "test_realizability": 3,
    "test_realizability_features": 4,
    "test_rotary_values": 4,
    "test_training": 2,
    "test_transformer_equals_plain": 3,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave some of the cases to the slow suite."""
    seen: dict[str, int] = {}
    for item in items:
        step = ONE_IN.get(item.path.stem, 1)
        if step == 1 or "[" not in item.name:
            continue
        callspec = getattr(item, "callspec", None)
        name = (callspec and callspec.params.get("rule")) or item.name.partition("[")[0]
        number = seen[name] = seen.get(name, sum(map(ord, name))) + 1
        if number % step:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def float64():
    """Double precision for the length of a test."""
    with double_precision():
        yield


@pytest.fixture
def strict_dtypes():
    """Arrays of different types may not meet without a cast."""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(scope="session")
def rope_result() -> CellResult:
    """A RoPE head trained for a few hundred steps."""
    return run([small_cell("rope")])[0]


@pytest.fixture(scope="session")
def learned_result() -> CellResult:
    """A learned-position head trained for a few hundred steps, with weight decay on its table."""
    return run([small_cell("learned", weight_decay=1e-2)])[0]
