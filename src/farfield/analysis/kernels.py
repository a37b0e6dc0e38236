"""Rotary kernels compared before any training: :func:`kernel`, for the choice of a base or of a scaling."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from farfield._checks import index, plain, real, whole
from farfield._json import finite
from farfield.analysis.defaults import LOGIT_SCALE, TRAINED
from farfield.encodings import Encoding, encodings
from farfield.encodings.rotary import Rotary, RotaryFamily
from farfield.environment import settled
from farfield.errors import FarfieldError
from farfield.models.base import WIDEST
from farfield.printing import short
from farfield.probes.kernel import ROUNDING, first_valley, kernel_by_blocks
from farfield.probes.kernel_dilution import TargetDilution, rival_sums, target_dilution, target_masses
from farfield.registry import LARGEST_WHOLE

LARGEST_SCALE = 1e6
# One array of a number a position is kept at a time: 128 MiB.
LONGEST = 2**24
# As many as the curves of a figure that can be told apart.
MOST_ENTRIES = 49
TARGETS = (1, 64)
# Points of a drawn curve. Bins of the kernel are as wide as its ripples, so that their peaks make a line.
POINTS = 200
BINS = 64


class Curves(NamedTuple):
    """What a figure shows of a kernel that has more points than a figure.

    Attributes:
        offsets: first s of each bin, in steps of equal ratio from s = 1.
        highest: largest g(s)/g(0) in the bin.
        lengths, masses: context lengths, and the weight of the last target at each; empty where the kernel
            changes with the length.
    """

    offsets: Int[np.ndarray, " bin"]
    highest: Float[np.ndarray, " bin"]
    lengths: Int[np.ndarray, " length"]
    masses: Float[np.ndarray, " length"]


@dataclasses.dataclass(frozen=True)
class KernelEntry:
    """The kernel g(s) = sum_i p_i cos(s theta_i) of one encoding over s = 0 .. length - 1 (Lemma 2).

    Attributes:
        encoding: with every setting filled in.
        breadth: g(1)/g(0).
        valley: s of the first valley, after which g first rises; None if it falls to the end.
        realignment: largest g(s)/g(0) past the first valley; None without a valley.
        realignment_at: the s where it sits.
        beyond_trained: largest g(s)/g(0) at offsets that training lacks, s >= trained; None if there are none.
        beyond_trained_at: the s where it sits.
        unique: whether g(s) < g(0) at every other s, by more than rounding.
        logit_scale: the logit at the target, with the encoding's own factor on logits (YaRN's, LongRoPE's).
        changes: whether shorter contexts have another kernel (dynamic NTK, LongRoPE past the original length).
        targets: margin and dilution by target offset.
    """

    encoding: RotaryFamily
    breadth: float
    valley: int | None
    realignment: float | None
    realignment_at: int | None
    beyond_trained: float | None
    beyond_trained_at: int | None
    unique: bool
    logit_scale: float
    changes: bool
    targets: tuple[TargetDilution, ...]
    curves: Curves = dataclasses.field(repr=False, compare=False)

    @property
    def title(self) -> str:
        """Name and the settings that are not their defaults, base apart."""
        shown = {"base", "layout"}
        config = {name: value for name, value in encodings.config(self.encoding).items() if name not in shown}
        return short(encodings.format_config(config))

    def to_json(self) -> dict[str, Any]:
        """Everything but the curves as one JSON-able object."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["curves"]
        config = encodings.config(self.encoding)
        targets = [target._asdict() for target in self.targets]
        return finite(values | {"encoding": config, "base": config["base"], "targets": targets})


@dataclasses.dataclass(frozen=True)
class KernelComparison:
    """Kernels side by side, with what they were computed for.

    Attributes:
        trained: training length, which original_length=0 stands for and past which offsets are new.
        logit_scale: beta, the logit at the target before an encoding's own factor.
        weights: p_i, or None for equal ones.
    """

    dim: int
    length: int
    trained: int
    logit_scale: float
    offsets: tuple[int, ...]
    weights: tuple[float, ...] | None
    entries: tuple[KernelEntry, ...]

    def to_json(self) -> dict[str, Any]:
        """Settings and entries as one JSON-able object; a lone entry's values stand beside the settings too."""
        settings = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        settings["offsets"] = list(self.offsets)
        settings["weights"] = "equal" if self.weights is None else list(self.weights)
        settings["entries"] = [entry.to_json() for entry in self.entries]
        alone = settings["entries"][0] if len(self.entries) == 1 else {}
        return alone | settings


@settled
def kernel(
    encoding: str | Encoding | Sequence[str | Encoding] = "rope",
    *,
    base: float | Sequence[float] | None = None,
    dim: int = 128,
    length: int = 131072,
    trained: int = TRAINED,
    logit_scale: float = LOGIT_SCALE,
    offsets: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> KernelComparison:
    """How sharp rotary kernels are, where they re-align, and where they dilute; nothing is trained.

    A head whose carrier is aligned with a target K places before the query has the logits beta g(delta + K)/g(0)
    at offsets delta (Lemma 2 of arXiv 2607.18759), and Corollary 2 gives the target's weight exactly. A trained
    head weights the pairs: it puts more on fast ones, so its peak is sharper and its re-alignment higher than with
    equal weights. Everything is in float64; a model that computes phases in float32 departs from it far out.

    Args:
        encoding: rotary encodings, in a sequence or as ``"rope,yarn:factor=8,original_length=4096"``. Pairs that
            stand still (rope:fraction, p-rope) count in g with cosine 1.
        base: bases, each for every encoding; an encoding's own if None.
        dim: head dimension d.
        length: context length L; offsets s go to L - 1.
        trained: training length.
        logit_scale: beta, the logit at the target.
        offsets: targets K; 1 and 64, as far as the length holds them, if None.
        weights: share p_i of each of the d/2 pairs, of any sum; equal if None.

    Raises:
        FarfieldError: naming the setting, the reason and the mend.
    """
    dim = whole("dim", dim, 2, WIDEST)
    length = whole("length", length, 2, LONGEST)
    trained = whole("trained", trained, 1, LARGEST_WHOLE)
    if not 0 < (scale := real(logit_scale)) <= LARGEST_SCALE:
        raise FarfieldError(
            f"logit_scale = {plain(logit_scale)!r} must be a number above 0 and at most {LARGEST_SCALE:g}"
        )
    targets = tuple(k for k in TARGETS if k < length) if offsets is None else _checked_offsets(offsets, length)
    shares = None if weights is None else _checked_weights(weights, dim)
    resolved = []
    for entry in _requested(encoding, base):
        chosen = encodings.normalized(_rotary(entry)).resolved(trained, length)
        chosen.check(dim, length)
        resolved.append(chosen)
    resolved = list(dict.fromkeys(resolved))
    if len(resolved) > MOST_ENTRIES:
        raise FarfieldError(f"{len(resolved)} kernels are more than {MOST_ENTRIES}: compare fewer at once")
    return KernelComparison(
        dim=dim,
        length=length,
        trained=trained,
        logit_scale=scale,
        offsets=targets,
        weights=None if shares is None else tuple(shares.tolist()),
        entries=tuple(_entry(one, dim, length, trained, scale, targets, shares) for one in resolved),
    )


def _checked_offsets(offsets: Any, length: int) -> tuple[int, ...]:
    try:
        given = [(offset, index(offset)) for offset in offsets]
    except TypeError:
        raise FarfieldError(f"offsets = {offsets!r} must be a row of whole numbers, for example [1, 64]") from None
    if not given:
        raise FarfieldError("no target offset is given: for example 1, the token before the query")
    for offset, target in given:
        if target is None:
            raise FarfieldError(f"offset {offset!r} must be a whole number, for example 1")
        if not 0 <= target < length:
            raise FarfieldError(
                f"offset {target} is not in a context of {length}: a target lies 0 to {length - 1} places before "
                "the query"
            )
    return tuple(dict.fromkeys(target for _, target in given if target is not None))


def _requested(
    encoding: str | Encoding | Sequence[str | Encoding], base: float | Sequence[float] | None
) -> Iterator[Encoding]:
    """Each encoding with each base."""
    given = list(encoding) if isinstance(encoding, Iterable) and not isinstance(encoding, str) else [encoding]
    for entry in given:
        if not isinstance(entry, str | Encoding):
            raise FarfieldError(f"encoding = {entry!r} must be written as in 'rope:base=500000', or be an encoding")
    asked = [one for entry in given for one in (split_encodings(entry) if isinstance(entry, str) else [entry])]
    if not asked:
        raise FarfieldError("no encoding is given: for example rope,yarn:factor=8")
    base = plain(base)
    if isinstance(base, Sequence | np.ndarray | jax.Array) and not isinstance(base, str | bytes):
        bases = list(base)
    else:  # a string is one number: its characters are no bases
        bases = None if base is None else [base]
    if bases is not None and not bases:
        raise FarfieldError("no base is given: for example 10000,500000")
    for entry in asked:
        parsed = _rotary(encodings.parse(entry) if isinstance(entry, str) else entry)
        if bases is None:
            yield parsed
            continue
        config = encodings.config(parsed)
        if not isinstance(entry, str) or "base" in encodings.settings_in(entry)[1]:
            raise FarfieldError(
                f"base is set twice: in {entry if isinstance(entry, str) else config['name']!r} and apart from it"
            )
        yield from (encodings.from_config(config | {"base": one}) for one in bases)


def split_encodings(text: str) -> list[str]:
    """Encodings separated by commas, where a part like ``setting=value`` belongs to the one before it.

    >>> split_encodings("rope,yarn:factor=8,original_length=4096,llama3")
    ['rope', 'yarn:factor=8,original_length=4096', 'llama3']
    """
    found: list[str] = []
    for part in filter(str.strip, text.split(",")):
        if found and "=" in part.partition(":")[0]:
            found[-1] += f",{part.strip()}"
        else:
            found.append(part.strip())
    return found


def _turns_alone(kind: type[Encoding]) -> bool:
    """Whether a kind of encoding rotates by position times frequency and does nothing else that depends on it."""
    return issubclass(kind, RotaryFamily) and (kind.magnitudes, kind.phase) == (Rotary.magnitudes, RotaryFamily.phase)


def _rotary(encoding: Encoding) -> RotaryFamily:
    if isinstance(encoding, RotaryFamily) and _turns_alone(type(encoding)):
        return encoding
    name = encodings.name_of(encoding)
    why = "does more than rotate" if isinstance(encoding, Rotary) else "does not rotate"
    known = ", ".join(one for one in encodings if _turns_alone(encodings[one]))
    raise FarfieldError(
        f"{name} {why}, so it has no kernel of cosines: choose from {known}, or see what it does with "
        f"`farfield show {name}`"
    )


def _checked_weights(weights: Sequence[float], dim: int) -> Float[np.ndarray, " half"]:
    shares = _reals(weights)
    if shares.shape != (dim // 2,) or not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise FarfieldError(
            f"weights must be {dim // 2} numbers, one for each pair of d = {dim}, none negative, not all 0"
        )
    shares = shares / shares.max()  # the sum of very large weights would overflow
    return shares / shares.sum()


def _reals(values: Any) -> Float[np.ndarray, "..."]:
    """Numbers in float64; a lone NaN for text, truth values, complex numbers and rows of unequal length."""
    try:
        given = np.asarray(values)
        return np.array(np.nan) if given.dtype.kind in "bcSUmM" else given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array(np.nan)


def _entry(
    encoding: Any,
    dim: int,
    length: int,
    trained: int,
    logit_scale: float,
    offsets: tuple[int, ...],
    weights: Float[np.ndarray, " half"] | None,
) -> KernelEntry:
    with jax.enable_x64(True):
        theta = np.asarray(encoding.frequencies(dim, length, jnp.float64))
    sizes = encoding.gains(dim) ** 2
    scale = logit_scale * float(np.average(sizes, weights=weights))
    g = kernel_by_blocks(theta, length - 1, sizes if weights is None else sizes * weights)
    valley = first_valley(g, ROUNDING)
    worst = None if valley is None else valley + int(g[valley:].argmax())
    new = trained + int(g[trained:].argmax()) if trained < length else None
    changes = encoding.reads_length and length > encoding.original_length
    rivals = rival_sums(g, scale)
    return KernelEntry(
        encoding=encoding,
        breadth=float(g[1]),
        valley=valley,
        realignment=None if worst is None else float(g[worst]),
        realignment_at=worst,
        beyond_trained=None if new is None else float(g[new]),
        beyond_trained_at=new,
        unique=bool(g[1:].max() < 1 - ROUNDING),
        logit_scale=scale,
        changes=changes,
        targets=tuple(target_dilution(g, rivals, offset, trained, changes=changes) for offset in offsets),
        curves=_curves(g, rivals, offsets[-1], changes),
    )


def _curves(
    g: Float[np.ndarray, " offset"], rivals: Float[np.ndarray, " offset"], offset: int, changes: bool
) -> Curves:
    bins = _spread(1, len(g), BINS)[:-1]
    lengths = _spread(offset + 1, len(g), POINTS) if not changes else np.zeros(0, int)
    return Curves(bins, np.maximum.reduceat(g, bins), lengths, target_masses(rivals, offset, lengths))


def _spread(first: int, last: int, points: int) -> Int[np.ndarray, " point"]:
    """Whole numbers from first to last in steps of about equal ratio."""
    return np.unique(np.geomspace(first, last, min(points, last - first + 1)).round().astype(int))
