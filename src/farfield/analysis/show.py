"""The Python interface to an encoding by itself: :func:`show`, before any training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from farfield._checks import plain, whole
from farfield._json import finite
from farfield.encodings import Encoding, encodings
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.models.base import MOST_HEADS, WIDEST
from farfield.printing import short
from farfield.probes.encoding_profile import EncodingProfile, encoding_profile
from farfield.probes.kernel import KernelShape, kernel_shape
from farfield.registry import LARGEST_WHOLE
from farfield.spec import value_text

LONGEST_SHOWN = 2**16


@dataclasses.dataclass(frozen=True)
class Shown:
    """An encoding's profile with what it was made from.

    Attributes:
        encoding: with every setting filled in.
        kernel: shape of the rotary kernel; None where the encoding does not rotate or the length is short.
    """

    encoding: Encoding
    dim: int
    profile: EncodingProfile
    kernel: KernelShape | None

    @property
    def title(self) -> str:
        """The encoding with its settings, in words."""
        config = encodings.config(self.encoding)
        settings = ", ".join(f"{key}={short(value_text(value))}" for key, value in config.items() if key != "name")
        return f"{config['name']}" + (f" ({settings})" if settings else "") + f", d = {self.dim}"

    def to_json(self) -> dict[str, Any]:
        """Everything as one JSON-able object."""
        rows = {
            name: None if values is None else [float(value) for value in values]
            for name, values in self.profile._asdict().items()
        }
        rows["offsets"] = self.profile.offsets.tolist()
        return finite(
            {
                "encoding": encodings.config(self.encoding),
                "dim": self.dim,
                "relative": self.encoding.relative,
                **rows,
                "kernel": None if self.kernel is None else self.kernel._asdict(),
            }
        )


@settled
def show(
    encoding: str | Encoding,
    settings: dict[str, Any] | None = None,
    *,
    dim: int = 64,
    length: int = 64,
    trained: int = 16,
    head: tuple[int, int] = (0, 1),
    seed: int = 0,
) -> Shown:
    """What an encoding alone does over offsets, before any training.

    Args:
        settings: of the encoding, beside those in its name.
        dim: dimension that it acts on.
        length: places; the query is the last.
        trained: training length, which some encodings refer to.
        head: which head of how many.
        seed: of trainable parameters, shown as training starts from them.

    Raises:
        FarfieldError: naming the setting, the reason and the mend.
    """
    if isinstance(encoding, str):
        encoding = _parsed(encoding, settings or {})
    dim, length = whole("dim", dim, 1, WIDEST), whole("length", length, 1, LONGEST_SHOWN)
    trained, seed = whole("trained", trained, 1, LARGEST_WHOLE), whole("seed", seed, 0, 2**32 - 1)
    head = plain(head)
    if not isinstance(head, Iterable) or len(pair := tuple(head)) != 2:
        raise FarfieldError(f"head = {head!r} must be which head of how many, as in (0, 1)")
    heads = whole("heads", pair[1], 1, MOST_HEADS)
    index = whole("head", pair[0], 0, heads - 1)
    encoding = encodings.normalized(encoding).resolved(trained, length)
    encoding.check(dim, length)
    profile = encoding_profile(encoding, dim, length, seed=seed, head=index, heads=heads)
    shape = None if profile.rotation is None or length < 5 else kernel_shape(profile.rotation)
    return Shown(encoding, dim, profile, shape)


def _parsed(text: str, settings: dict[str, Any]) -> Encoding:
    """An encoding from one line and settings apart from it."""
    name, given = encodings.settings_in(text)
    for key in settings:
        if encodings.field_of(name, key) in given:
            raise FarfieldError(f"{key} is set twice: in {text!r} and apart from it")
    return encodings.get(name, **given | settings)
