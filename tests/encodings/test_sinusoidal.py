"""The sinusoidal embedding against printed values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.encodings.sinusoidal import Sinusoidal
from helpers.support import double_precision


def added(encoding: Sinusoidal, width: int, positions) -> np.ndarray:
    """Vectors at positions, in float64."""
    with double_precision():
        parameters = encoding.initialize(None, width)  # pyright: ignore[reportArgumentType]
        return np.asarray(encoding.embed(parameters, jnp.asarray(positions)))


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("interleaved", [0.84147, 0.54030, 0.01, 0.99995]),
        ("concatenated", [0.84147, 0.01, 0.54030, 0.99995]),
    ],
)
def test_each_layout_of_position_one_has_its_values(layout, expected):
    """transformer-xl issue 119."""
    np.testing.assert_allclose(added(Sinusoidal(layout), 4, [1])[0], expected, atol=5e-6)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_inner_product_at_offset_three_is_the_same_anywhere(layout):
    near = added(Sinusoidal(layout), 8, [0, 3])
    far = added(Sinusoidal(layout), 8, [1000, 1003])
    assert near[0] @ near[1] == pytest.approx(1.964890, abs=5e-7)
    assert far[0] @ far[1] == pytest.approx(1.964890, abs=5e-7)


@given(
    position=st.integers(0, 10**6),
    offset=st.integers(0, 1000),
    half=st.sampled_from([1, 4, 32]),
    base=st.floats(2, 1e6),
)
def test_inner_products_depend_on_the_offset_alone(position, offset, half, base):
    encoding = Sinusoidal(base=base)
    p = added(encoding, 2 * half, [0, offset, position, position + offset])
    assert p[0] @ p[1] == pytest.approx(p[2] @ p[3], abs=1e-8)
    with double_precision():
        kernel = np.cos(offset * np.asarray(encoding.frequencies(2 * half))).sum()
    assert p[0] @ p[1] == pytest.approx(kernel, abs=1e-8)


def test_position_zero_is_zeros_and_ones():
    np.testing.assert_array_equal(added(Sinusoidal(), 6, [0])[0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(added(Sinusoidal("concatenated"), 6, [0])[0], [0, 0, 0, 1, 1, 1])


def test_the_waves_leave_nothing_to_train():
    parameters = Sinusoidal().initialize(None, 6)  # pyright: ignore[reportArgumentType]
    assert jax.tree.leaves(parameters) == []
