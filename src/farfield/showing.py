"""The Python interface to an encoding by itself: :func:`show`, before any training."""

from __future__ import annotations

import dataclasses
from typing import Any

from farfield.encodings import Encoding, encodings
from farfield.environment import settled
from farfield.errors import FarfieldError, unknown
from farfield.jsonable import finite
from farfield.models.base import MOST_HEADS, WIDEST
from farfield.probes.encoding_profile import EncodingProfile, encoding_profile
from farfield.probes.kernel import KernelShape, kernel_shape
from farfield.registry import LARGEST_WHOLE, in_words

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
        settings = ", ".join(f"{key}={in_words(value)}" for key, value in config.items() if key != "name")
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


def written_settings(text: str) -> set[str]:
    """Names of the settings that one line spells out."""
    parts = filter(None, text.partition(":")[2].split(","))
    return {part.partition("=")[0].strip() for part in parts}


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
        given = encodings.parse(encoding)
        config = encodings.config(given)
        name = config.pop("name")
        for key in settings or {}:
            if key not in config:
                raise unknown(f"setting of encoding {name!r}", key, config)
            if key in written_settings(encoding):
                raise FarfieldError(f"{key} is set twice: in {encoding!r} and apart from it")
        encoding = encodings.get(name, **config | (settings or {}))
    index, heads = head
    limits = {"dim": (dim, 1, WIDEST), "length": (length, 1, LONGEST_SHOWN), "trained": (trained, 1, LARGEST_WHOLE)}
    limits |= {"heads": (heads, 1, MOST_HEADS), "head": (index, 0, heads - 1), "seed": (seed, 0, 2**32 - 1)}
    for name, (value, least, most) in limits.items():
        if not isinstance(value, int) or not least <= value <= most:
            raise FarfieldError(f"{name} = {value!r} must be a whole number from {least} to {most}")
    encoding = encodings.normalized(encoding).resolved(trained, length)
    encoding.check(dim, length)
    profile = encoding_profile(encoding, dim, length, seed=seed, head=index, heads=heads)
    shape = None if profile.rotation is None or length < 5 else kernel_shape(profile.rotation)
    return Shown(encoding, dim, profile, shape)
