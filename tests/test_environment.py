"""The user's environment does not enter the numbers: JAX's settings, matplotlib's, and a JAX that cannot start."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest

from farfield import environment
from farfield.engine import programs
from farfield.engine.scheduler import run
from farfield.environment import ASSUMED, REFUSED, assumed
from farfield.errors import FarfieldError
from farfield.plotting.style import STYLE, new_figure, save
from farfield.results.result import to_arrays
from helpers.support import small_cell, the_rest_slow

CELL = small_cell("rope", steps=3, batch=8, sequences=16, lengths=(8, 12))
# Values that a user may have chosen; of all other settings, the negation, or a number or word beside the default.
CHOSEN = {
    "jax_default_prng_impl": "rbg",
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_default_matmul_precision": "bfloat16",
    "jax_legacy_prng_key": "error",
    "jax_random_seed_offset": 5,
    "jax_error_checking_behavior_nan": "raise",
    "jax_error_checking_behavior_divide": "raise",
    "jax_error_checking_behavior_oob": "raise",
    "jax_transfer_guard": "disallow",
    "jax_transfer_guard_host_to_device": "disallow",
    "jax_transfer_guard_device_to_host": "disallow",
    "jax_transfer_guard_device_to_device": "disallow",
    "jax_exec_time_optimization_effort": 0.5,
    "jax_memory_fitting_effort": 0.5,
    "jax_memory_fitting_level": "O0",
    "jax_optimization_level": "O0",
    "jax_array_garbage_collection_guard": "log",
    "jax_explicit_x64_dtypes": "error",
    "jax_logging_level": "ERROR",
    "jax_traceback_filtering": "off",
    "jax_use_magma": "off",
}


def another(name: str, value: Any) -> Any:
    """A value of a setting that is not its default."""
    if name in CHOSEN:
        return CHOSEN[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, enum.Enum):
        return next(member.value for member in type(value) if member != value)
    return value + 1 if isinstance(value, int | float) else "1"


# Every setting that this release of JAX has: what farfield fixes, and all that it takes to change no number.
SETTINGS = {name: another(name, value) for name, value in jax.config.values.items() if name not in REFUSED}
QUICK = ["jax_default_prng_impl", "jax_enable_x64"]


@pytest.fixture(scope="module")
def plain() -> dict[str, np.ndarray]:
    return to_arrays(run([CELL])[0])


@pytest.mark.filterwarnings("ignore:.*(compilation cache|PERSISTENT CACHE|PGLE|pgle)")  # of keeping programs
@pytest.mark.parametrize("name", the_rest_slow(SETTINGS, QUICK))
def test_a_setting_of_jax_changes_no_bit_or_is_refused(name, plain, tmp_path, monkeypatch):
    """jax issues 21663, 34497 and 27002: set by the user for the process, in a notebook or by a variable."""
    monkeypatch.chdir(tmp_path)  # where settings that name a folder to write to, as a dump's, may write
    before = jax.config.values[name]
    programs.forget_programs()
    try:
        jax.config.update(name, SETTINGS[name])
    except (RuntimeError, ValueError) as reason:
        pytest.skip(f"cannot be set while JAX runs: {reason}")
    try:
        kept = jax.config.values[name]
        try:
            found = to_arrays(run([CELL])[0])
        except FarfieldError as reason:
            assert "JAX cannot start" in str(reason)
            return
        assert jax.config.values[name] == kept, "the user's setting is the user's again"
    finally:
        jax.config.update(name, before)
        programs.forget_programs()
    for array in plain:
        np.testing.assert_array_equal(found[array], plain[array], err_msg=array)
        assert found[array].dtype == plain[array].dtype, array


def test_assumed_settings_are_those_of_jax_itself():
    assert {name for name in ASSUMED if name not in jax.config.values} == set()
    with assumed():
        assert jnp.arange(2.0).dtype == jnp.float32


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_process_alone_can_set_is_refused(name):
    jax.config.update(name, True if REFUSED[name] is False else "other")
    try:
        with pytest.raises(FarfieldError, match=name.upper()):
            environment.check()
    finally:
        jax.config.update(name, REFUSED[name])


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        ("--xla_cpu_enable_fast_math=true", "--xla_cpu_enable_fast_math=true"),
        ("--xla_cpu_enable_fast_math", "--xla_cpu_enable_fast_math"),
        ("--xla_dump_to=/tmp/x --xla_backend_optimization_level=0", "--xla_backend_optimization_level=0"),
        ("--xla_cpu_max_isa=SSE4_2", "--xla_cpu_max_isa=SSE4_2"),
        ("--xla_cpu_prefer_vector_width=128", "--xla_cpu_prefer_vector_width=128"),
        ("--xla_nonsense=1", "--xla_nonsense=1"),
        ("--xla_dump_hlo_as_nonsense", "--xla_dump_hlo_as_nonsense"),
        ("--xla_force_host_platform_device_count=many", "--xla_force_host_platform_device_count=many"),
        ("flags.txt", "flags.txt"),  # XLA reads flags from such a file
        ("--xla_cpu_enable_fast_math=false", None),
        ("--xla_force_host_platform_device_count=4  --xla_dump_to=/tmp/x --xla_dump_hlo_as_text", None),
        ("--xla_dump_hlo_pass_re=.* --xla_dump_include_timestamp=true --xla_dump_max_hlo_modules=-1", None),
        ("", None),
    ],
)
def test_switches_of_xla_that_may_change_numbers_are_refused(flags, refused, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", flags)
    if refused is None:
        environment.check()
    else:
        with pytest.raises(FarfieldError, match=f"XLA_FLAGS holds {refused}, .* unset XLA_FLAGS"):
            environment.check()


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("JAX_PLATFORMS", "cuda", "JAX cannot start"),
        ("JAX_ENABLE_X64", "maybe", "JAX cannot be imported"),
        ("XLA_FLAGS", "--xla_nonsense=1", "XLA_FLAGS holds --xla_nonsense=1"),  # at which XLA itself aborts
    ],
)
def test_a_jax_that_cannot_start_is_told_in_one_line(variable, value, words):
    """jax issue 25315."""
    ran = subprocess.run(
        [sys.executable, "-m", "farfield", "train", "--steps", "2", "--seeds", "1"],
        env=os.environ | {variable: value}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in ran.stderr.splitlines() if line.startswith("farfield: error:")]
    assert ran.returncode == 2 and len(said) == 1 and words in said[0] and "Traceback" not in ran.stderr


def test_a_users_matplotlibrc_changes_no_figure(tmp_path):
    """pypam issue 61: `text.usetex` in a matplotlibrc fails without LaTeX."""

    def drawn(name: str) -> bytes:
        with mpl.rc_context(STYLE):
            figure = new_figure(3, 2)
            figure.subplots().set(title="1", xlabel="length")
        save(figure, tmp_path / name)
        return (tmp_path / name).read_bytes()

    usual = drawn("usual.png")
    theirs = {
        "text.usetex": True,
        "axes.facecolor": "black",
        "savefig.dpi": 10,
        "figure.figsize": (1, 1),
        "font.size": 30,
    }
    with mpl.rc_context(theirs):
        assert drawn("theirs.png") == usual


@pytest.mark.parametrize("module", ["catalogue", "reporting.files", "reporting.atlas", "papers.page", "plotting.ways"])
def test_no_backend_of_matplotlib_is_needed(module):
    """Notebooks leave MPLBACKEND=module://matplotlib_inline.backend_inline to what they start."""
    program = f"import farfield.{module}, matplotlib, os; print(os.environ['MPLBACKEND'], matplotlib.__name__)"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"MPLBACKEND": "nonsense"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("nonsense matplotlib\n", "")


def test_a_users_backend_stays_chosen():
    program = "import farfield.plotting.style, matplotlib; print(matplotlib.rcParams['backend'])"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"MPLBACKEND": "svg"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("svg\n", "")
