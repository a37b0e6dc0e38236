"""The settings of JAX that farfield's numbers assume, whatever the user's are.

JAX reads its configuration from the environment and from the program around it, and much of it changes numbers: the
random generator, 64-bit mode, an offset to every seed, the precision of products. Inside farfield each of these has
the value of :data:`ASSUMED`; outside it keeps the user's. What cannot be set for a part of a program alone is refused
before anything runs, naming the setting and the fix (:func:`check`), and so is a JAX that cannot start.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from farfield.errors import FarfieldError

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

# JAX's own defaults. Settings that a release of JAX does not have are passed over.
ASSUMED: dict[str, Any] = {
    # What is drawn.
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
    "jax_threefry_gpu_kernel_lowering": False,
    "jax_random_seed_offset": 0,
    "jax_enable_custom_prng": False,
    "jax_legacy_prng_key": "allow",
    "jax_high_dynamic_range_gumbel": False,
    "jax_debug_key_reuse": False,
    # In which type, and how precisely.
    "jax_enable_x64": False,
    "jax_explicit_x64_dtypes": "warn",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_default_matmul_precision": None,
    "jax_allow_f16_reductions": True,
    # How programs are differentiated and compiled.
    "jax_disable_jit": False,
    "jax_no_tracing": False,
    "jax_no_execution": False,
    "jax_softmax_custom_jvp": False,
    "jax_use_direct_linearize": True,
    "jax_custom_vjp3": False,
    "jax_remat3": False,
    "jax_scan3": False,
    "jax_compiler_enable_remat_pass": True,
    "jax_exec_time_optimization_effort": 0.0,
    "jax_memory_fitting_effort": 0.0,
    "jax_memory_fitting_level": "O2",
    "jax_optimization_level": "UNKNOWN",
    "jax_use_simplified_jaxpr_constants": False,
    "eager_constant_folding": False,
    "jax_refs_to_pins": False,
    # A number that is not one is counted as such here, and no reason to stop.
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_error_checking_behavior_nan": "ignore",
    "jax_error_checking_behavior_divide": "ignore",
    "jax_error_checking_behavior_oob": "ignore",
    # Checks of other people's programs, which stop threads, copies between memories, or nested compilation.
    "jax_check_tracer_leaks": False,
    "jax_enable_checks": False,
    "jax_thread_guard": False,
    "jax_array_garbage_collection_guard": None,
    "jax_transfer_guard": "allow",
    "jax_transfer_guard_host_to_device": "allow",
    "jax_transfer_guard_device_to_host": "allow",
    "jax_transfer_guard_device_to_device": "allow",
}
# Settings of the whole process that change numbers: the value that farfield works with.
REFUSED: dict[str, Any] = {
    "jax_disable_most_optimizations": False,
    "jax_backend_target": "",
    "jax_mock_gpu_topology": "",
}
# XLA's own switches that change no number, with values that it can read. Every other is refused: some change numbers
# (fast math, the level of optimization, the instructions that may be used), and what XLA does not know, or cannot read,
# aborts the process.
HARMLESS = re.compile(
    r"""--xla_(?:
        force_host_platform_device_count=\d+
        | (?:gpu_cuda_data_dir | dump_to | dump_hlo_(?:module|pass|pipeline)_re)=\S*
        | dump_max_hlo_modules=-?\d+
        | dump_(?:
            hlo_as_(?:text|long_text|proto|dot|html|url) | hlo_snapshots | include_timestamp | large_constants
            | module_metadata | disable_metadata | compress_protos | full_hlo_config | latency_hiding_schedule
        )(?:=(?:true|false|1|0))?
        | cpu_enable_fast_(?:math|min_max)=(?:false|0)
    )""",
    re.VERBOSE,
)


def settled(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Decorator: run a function that computes with JAX under :data:`ASSUMED`, in any thread.

    Raises:
        FarfieldError: from the function, if :func:`check` refuses what the process is set to.
    """

    @functools.wraps(function)
    def inside(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        check()
        with assumed():
            return function(*args, **kwargs)

    return inside


@contextlib.contextmanager
def assumed() -> Iterator[None]:
    """JAX's settings as farfield's numbers need them, in this thread; the user's again afterwards."""
    import jax

    holders: Any = jax.config._value_holders
    with contextlib.ExitStack() as stack:
        for name, value in ASSUMED.items():
            found = getattr(jax.config, name, value)
            if getattr(found, "value", found) != value:
                stack.enter_context(holders[name](value))
        yield


def check() -> None:
    """Refuse what numbers depend on and no part of a process can set for itself; start JAX.

    Raises:
        FarfieldError: naming the setting, the reason and the fix.
    """
    _check_flags()
    import jax

    chosen = jax.config.values
    for name, value in REFUSED.items():
        found = chosen.get(name, value)
        if found != value:
            raise FarfieldError(
                f"{name.upper()}={found} changes numbers for the whole process: unset it (farfield needs {value!r})"
            )
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as reason:  # JAX asserts where it finds no device of an asked platform
        asked = os.environ.get("JAX_PLATFORMS") or chosen.get("jax_platforms")
        said = f"JAX_PLATFORMS={asked}: " if asked else ""
        why = " ".join(str(reason).split()) or "it finds no device of this kind; unset it, or install JAX for it"
        raise FarfieldError(f"{said}JAX cannot start: {why}") from None


def _check_flags() -> None:
    """Refuse switches of XLA that are not known to be harmless, before XLA reads them.

    Raises:
        FarfieldError: naming the first of them.
    """
    for flag in os.environ.get("XLA_FLAGS", "").split():
        if not HARMLESS.fullmatch(flag):
            raise FarfieldError(
                f"XLA_FLAGS holds {flag}, which is not known to leave numbers as they are: take it out, or unset "
                "XLA_FLAGS"
            )
