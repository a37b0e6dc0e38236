"""Curves against length as small SVG pictures for a page: text keeps its size, colours follow the page's scheme.

Every curve is a group that carries numbers for the page's script: ``data-r`` its row in the atlas, ``data-c`` its
column, ``data-s`` its series.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from farfield.plotting.style import COLOURS, style_of

WIDTH, HEIGHT = 350, 236
LEFT, RIGHT, TOP, BOTTOM = 38, 10, 20, 36
# Test lengths that span more than this are drawn on a logarithmic axis.
WIDEST_LINEAR = 8
NO_SELECTION = "no selection"
# Bands of more curves than these are drawn fainter.
MANY = 5
# Dashes of matplotlib as SVG has them, for lines of 1.8 units.
SVG_DASHES = {"-": "", "--": "7 3", "-.": "10 3 2 3", ":": "2 3"}
LETTER = 6.2
CURVED = "M{0} {1}m-3.3 0a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0 -6.6 0z"
# Outlines of markers around their centre, by matplotlib's letter.
CORNERS: dict[str, list[tuple[float, float]]] = {
    "s": [(-3, -3), (3, -3), (3, 3), (-3, 3)],
    "^": [(0, -4), (3.7, 3), (-3.7, 3)],
    "v": [(0, 4), (3.7, -3), (-3.7, -3)],
    "D": [(0, -4.2), (4.2, 0), (0, 4.2), (-4.2, 0)],
    "P": [(-1.4, -4), (1.4, -4), (1.4, -1.4), (4, -1.4), (4, 1.4), (1.4, 1.4), (1.4, 4), (-1.4, 4), (-1.4, 1.4),
          (-4, 1.4), (-4, -1.4), (-1.4, -1.4)],
    "X": [(-2, -4), (0, -2), (2, -4), (4, -2), (2, 0), (4, 2), (2, 4), (0, 2), (-2, 4), (-4, 2), (-2, 0), (-4, -2)],
}  # fmt: skip


class DrawnPoint(NamedTuple):
    """A mean over seeds at one length; its ends are None where one seed leaves no interval."""

    length: int
    mean: float
    low: float | None
    high: float | None


class DrawnCurve(NamedTuple):
    """One setting against length.

    Attributes:
        name: of the setting, for whoever points at it.
        row, column: in the atlas.
        series: which colour, dash and marker.
        points: by length; a length without a number is left out.
    """

    name: str
    row: int
    column: int
    series: int
    points: Sequence[DrawnPoint]


class Frame(NamedTuple):
    """What a picture shows around its curves.

    Attributes:
        lengths: of all tests, in order.
        bounds: least and most of the vertical axis; None for what the curves span.
        whole: whether the vertical axis has whole numbers, and shows of its bounds what the curves span.
        trained: shortest and longest trained length, where all curves share them.
        chance: accuracy of the best guess by length, where all curves share it and it belongs here.
        label: of the picture, for those who do not see it.
    """

    lengths: Sequence[int]
    bounds: tuple[float, float] | None
    whole: bool
    trained: tuple[int, int] | None
    chance: Sequence[tuple[int, float]]
    label: str

    @property
    def logarithmic(self) -> bool:
        """Whether the horizontal axis is."""
        return self.lengths[-1] > WIDEST_LINEAR * self.lengths[0]


def picture(curves: Sequence[DrawnCurve], frame: Frame) -> Markup:
    """Curves with their bands, the trained range and chance, as an SVG element."""
    low, high, ticks = _vertical(curves, frame)
    ticks = ticks if curves else []

    def x(length: float) -> float:
        first, last = frame.lengths[0], frame.lengths[-1]
        if first == last:
            return (LEFT + WIDTH - RIGHT) / 2
        if frame.logarithmic:
            share = math.log2(length / first) / math.log2(last / first)
        else:
            share = (length - first) / (last - first)
        return round(LEFT + 6 + share * (WIDTH - LEFT - RIGHT - 12), 1)

    def y(value: float) -> float:
        return round(TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    parts = [*_ground(frame, x, y, ticks), *_chance(frame, x, y), *(_curve(curve, x, y) for curve in curves)]
    if not curves:  # of places, where none is selected
        middle = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
        parts.append(Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(*middle, NO_SELECTION))
    return Markup('<svg class="curves{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        " many" if len(curves) > MANY else "", WIDTH, HEIGHT, frame.label, Markup("").join(parts)
    )


def sample(series: int) -> Markup:
    """A short piece of a series' line with its marker, for a legend."""
    line = Markup('<path class="line" d="M1 8H39"{}/>').format(_dashes(series))
    marker = Markup('<path class="marks" d="{}"/>').format(_marker(series, 20, 8))
    return Markup('<svg class="sample k{}" viewBox="0 0 40 16" aria-hidden="true">{}{}</svg>').format(
        _colour(series), line, marker
    )


def _curve(curve: DrawnCurve, x, y) -> Markup:
    points = curve.points
    line = "".join(f"{'L' if index else 'M'}{x(p.length)} {y(p.mean)}" for index, p in enumerate(points))
    marks = "".join(_marker(curve.series, x(p.length), y(p.mean)) for p in points)
    group = Markup('<g class="f curve k{}" data-r="{}" data-c="{}" data-s="{}"><title>{}</title>{}').format(
        _colour(curve.series), curve.row, curve.column, curve.series, curve.name, _band(points, x, y)
    )
    return group + Markup('<path class="line" d="{}"{}/><path class="marks" d="{}"/></g>').format(
        line, _dashes(curve.series), marks
    )


def _band(points: Sequence[DrawnPoint], x, y) -> Markup:
    """The interval as an area; nothing where fewer than two neighbours have one."""
    ends = [(p.length, p.low, p.high) for p in points if p.low is not None and p.high is not None]
    if len(ends) < 2:
        return Markup("")
    there = "L".join(f"{x(length)} {y(high)}" for length, _, high in ends)
    back = "L".join(f"{x(length)} {y(low)}" for length, low, _ in reversed(ends))
    return Markup('<path class="band" d="M{}L{}z"/>').format(there, back)


def _ground(frame: Frame, x, y, ticks: list[float]) -> Iterator[Markup]:
    bottom = HEIGHT - BOTTOM
    if frame.trained:
        yield from _trained(frame.lengths, frame.trained, x)
    for tick in ticks:
        yield Markup('<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" text-anchor="end">{}</text>').format(
            LEFT, y(tick), WIDTH - RIGHT, LEFT - 5, y(tick) + 4, f"{tick:g}"
        )
    for length in _shown(frame, x):
        yield Markup('<path class="tick" d="M{0} {1}v4"/><text x="{0}" y="{2}" text-anchor="middle">{3}</text>').format(
            x(length), bottom, bottom + 16, length
        )
    yield Markup('<path class="axis" d="M{} {}H{}"/>').format(LEFT, bottom, WIDTH - RIGHT)
    name = "length (log2 scale)" if frame.logarithmic else "length"
    yield Markup('<text class="name" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, name
    )


def _trained(lengths: Sequence[int], trained: tuple[int, int], x) -> Iterator[Markup]:
    """The trained lengths as an area, from the axis on where no test is shorter; in words where none is among them."""
    first, last = max(trained[0], lengths[0]), min(trained[1], lengths[-1])
    text = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
    if first > last:
        yield text.format(LEFT, TOP - 6, "start", f"trained on {trained[0]} to {trained[1]}: not tested")
        return
    left, right = LEFT if trained[0] <= lengths[0] else x(first) - 1, x(last) + 1
    yield Markup('<rect class="trained" x="{}" y="{}" width="{}" height="{}"/>').format(
        left, TOP, round(right - left, 1), HEIGHT - BOTTOM - TOP
    )
    fits = left < WIDTH - RIGHT - LETTER * len("trained")
    yield text.format(*((left, TOP - 6, "start") if fits else (right, TOP - 6, "end")), "trained")


def _chance(frame: Frame, x, y) -> Iterator[Markup]:
    if frame.chance:
        line = "".join(f"{'L' if index else 'M'}{x(at)} {y(value)}" for index, (at, value) in enumerate(frame.chance))
        yield Markup('<path class="chance" d="{}"/><text x="{}" y="{}" text-anchor="end">chance</text>').format(
            line if len(frame.chance) > 1 else f"M{LEFT} {y(frame.chance[0][1])}H{WIDTH - RIGHT}",
            WIDTH - RIGHT - 2,
            y(frame.chance[-1][1]) + 12,
        )


def _shown(frame: Frame, x) -> list[int]:
    """Lengths that are written out: the ends, the end of training, and what has room beside them."""
    shown: list[int] = []
    trained = frame.trained[1] if frame.trained and frame.trained[1] in frame.lengths else frame.lengths[0]
    for length in dict.fromkeys([frame.lengths[-1], trained, *reversed(frame.lengths)]):
        room = LETTER * len(str(length)) + 8
        if all(abs(x(length) - x(other)) >= room for other in shown):
            shown.append(length)
    return sorted(shown)


def _vertical(curves: Sequence[DrawnCurve], frame: Frame) -> tuple[float, float, list[float]]:
    """Ends of the vertical axis and where it is ruled."""
    if frame.bounds is not None and not frame.whole:
        low, high = frame.bounds
        return (
            low - 0.06 * (high - low),
            high + 0.02 * (high - low),
            [low, *(low + k / 4 * (high - low) for k in (1, 2, 3)), high],
        )
    values = [v for curve in curves for p in curve.points for v in (p.mean, p.low, p.high) if v is not None]
    low, high = min(values, default=0.0), max(values, default=0.0 if frame.whole else 1.0)
    if frame.whole:  # a constant has its own tick and one beside it
        least, most = frame.bounds or (-math.inf, math.inf)
        short = max(0.0, 2 - (high - low)) / 2
        low, high = max(low - short, least), min(high + short, most)
    step = 10 ** math.floor(math.log10((high - low) or 1))
    steps = (step * m for m in (0.1, 0.2, 0.5, 1, 2, 5, 10) if not frame.whole or step * m >= 1)
    step = next(step for step in steps if (high - low) / step <= 5)
    first, last = math.floor(low / step), max(math.ceil(high / step), math.floor(low / step) + 1)
    return first * step, last * step, [round(k * step, 10) for k in range(first, last + 1)]


def _colour(series: int) -> int:
    return series % len(COLOURS)


def _dashes(series: int) -> Markup:
    style = style_of(series)["linestyle"]
    dashes = SVG_DASHES[style] if isinstance(style, str) else " ".join(f"{1.8 * part:g}" for part in style[1])
    return Markup(' stroke-dasharray="{}"').format(dashes) if dashes else Markup("")


def _marker(series: int, x: float, y: float) -> str:
    corners = CORNERS.get(style_of(series)["marker"])
    if corners is None:
        return CURVED.format(x, y)
    return "M" + "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in corners) + "z"
