"""Figures: every curve tells itself from every other, and every axis from what it cannot be."""

from __future__ import annotations

import dataclasses
import itertools
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import farfield as ff
from farfield.api import TrainResult
from farfield.plotting import figures
from farfield.plotting.predictions import prediction_figure
from farfield.plotting.style import curve, new_figure, style_of, whole_numbers
from farfield.plotting.ways import WaysPanel, ways_figure
from farfield.prediction import predict
from farfield.reporting.curves_svg import DrawnCurve, DrawnPoint, Frame, picture
from farfield.results.result import CellResult
from helpers.support import small_cell, untrained

LENGTHS = (4, 12, 16, 24, 40)
NAN = float("nan")


def test_thirteen_encodings_and_many_more_differ_in_colour_dash_or_marker_at_once():
    """seaborn issue 680: colours alone repeat after seven."""
    looks = [style_of(index) for index in range(49)]
    assert len({(str(look["color"]), str(look["linestyle"]), str(look["marker"])) for look in looks}) == 49
    for index, look in enumerate(looks[7:13], start=7):
        twin = looks[index - 7]  # of the same colour
        assert look["linestyle"] != twin["linestyle"]
        assert look["marker"] != twin["marker"]


def selecting(*offsets: list[float], task: str = "offset:2", lengths: tuple[int, ...] = LENGTHS) -> list[CellResult]:
    """Seeds that select these offsets, one a length."""
    found = []
    for seed, chosen in enumerate(offsets):
        cell = small_cell(seed=seed, task=task, lengths=lengths, shortest=12, longest=16)
        result = untrained(cell)
        result.__dict__["selected_offset"] = np.array(chosen, float)  # instead of what it would compute
        found.append(result)
    return found


def drawn(results: list[CellResult], **others: list[CellResult]) -> tuple[Figure, list[Axes]]:
    figure = figures.against_length({"one": results} | others)
    figure.canvas.draw()
    return figure, figure.axes


def ticks(axes: Axes, which: str) -> list[float]:
    """Ticks that are in view."""
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_view_interval()
    return [tick for tick in axis.get_majorticklocs() if low <= tick <= high]


def marked(axes: Axes) -> list[list[float]]:
    """Offsets of the markers, one row a seed."""
    return [list(line.get_ydata()) for line in axes.lines if line.get_linestyle() == "None"]


def test_offsets_are_those_that_seeds_select_and_no_mean_of_them():
    """The mean of -2 and -12 is an offset that nobody selected."""
    chosen = [[-1.0, -1, -1, -2, -2], [-3.0, -11, -15, -12, -39]]
    _, (_, _, right) = drawn(selecting(*chosen), two=selecting([0.0, 0, 0, 0, 0]))
    assert marked(right) == [*chosen, [0.0] * 5]
    assert not [line for line in right.lines if len(line.get_xdata()) == 5 and line.get_linestyle() != "None"]
    assert right.get_ylim()[0] >= -39.5 and right.get_ylim()[1] <= 0.5


def test_panels_share_their_lengths():
    for results in (selecting([-2.0] * 5), selecting([NAN] * 5), selecting([-2.0, NAN, NAN, NAN, NAN])):
        _, panels = drawn(results)
        assert len({axes.get_xlim() for axes in panels}) == 1


@pytest.mark.parametrize("offset", [-2, 0, -1, -3])
def test_a_constant_offset_has_whole_ticks_and_room_beside_it(offset):
    _, (_, _, right) = drawn(selecting([offset] * 5, [offset] * 5))
    found = ticks(right, "y")
    assert offset in found and len(found) >= 2
    assert all(tick == int(tick) for tick in found), found
    assert right.get_ylim()[1] <= 0.5


@pytest.mark.parametrize("lengths", [(12,), (12, 13), (4, 12, 16), (16, 65536)])
def test_lengths_have_whole_ticks(lengths):
    _, panels = drawn(selecting([-2.0] * len(lengths), lengths=lengths))
    for axes in panels:
        assert ticks(axes, "x") and all(tick == int(tick) for tick in ticks(axes, "x"))


def test_an_offset_that_is_missing_is_left_out():
    _, (_, _, right) = drawn(selecting([-2, NAN, -2, NAN, -2], [-2, NAN, -3, -4, -3]))
    np.testing.assert_array_equal(marked(right), [[-2, NAN, -2, NAN, -2], [-2, NAN, -3, -4, -3]])
    assert right.get_ylabel() == "key - query,\nof seeds that select one"
    assert not [text for text in right.texts if text.get_text() == "no selection"]


def test_where_no_offset_is_selected_the_panel_says_so():
    _, (_, _, right) = drawn(selecting([NAN] * 5, [NAN] * 5))
    assert [text.get_text() for text in right.texts if "selection" in text.get_text()] == ["no selection"]
    (words,) = [text for text in right.texts if text.get_text() == "no selection"]
    (target,) = [line for line in right.lines if line.get_linestyle() == "--"]
    height = right.transData.transform((0, target.get_ydata()[0]))[1]
    box = words.get_window_extent()
    assert not box.y0 - 2 <= height <= box.y1 + 2, "the target's line strikes the words through"
    _, (_, _, one) = drawn(selecting([NAN], lengths=(12,)))
    assert "no selection" in [text.get_text() for text in one.texts]


def test_numbers_of_a_diverged_seed_leave_every_curve_its_other_points():
    axes = new_figure(3, 3).add_subplot()
    curve(axes, 0, "accuracy", np.arange(3), np.array([[0.5, NAN, 0.1], [0.7, NAN, NAN]]), (0, 1))
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.6, NAN, 0.1])


@pytest.mark.parametrize(
    ("task", "other", "label"),
    [
        ("shift:2", "shift:2", "share of tokens"),
        ("offset:2", "offset:1", "share of sequences"),
        ("shift:2", "offset:2", "share of tokens (of sequences where one token is asked for)"),
    ],
)
def test_accuracy_is_called_what_it_is_a_share_of(task, other, label):
    some = [-2.0] * 5
    _, (left, _, _) = drawn(selecting(some, task=task), two=selecting(some, task=other))
    assert left.get_ylabel().replace("\n", " ") == label


def test_both_ends_of_training_are_marked_where_a_test_is_shorter():
    figure, panels = drawn(selecting([-2.0] * 5))
    for axes in panels:
        dotted = [float(line.get_xdata()[0]) for line in axes.lines if line.get_linestyle() == ":"]
        assert dotted == [12, 16]
    assert "trained lengths" in [text.get_text() for text in figure.legends[0].texts]
    figure, panels = drawn(selecting([-2.0] * 2, lengths=(12, 24)))
    for axes in panels:
        assert [float(line.get_xdata()[0]) for line in axes.lines if line.get_linestyle() == ":"] == [16]


def test_figures_of_few_offsets_and_lengths_have_whole_ticks():
    shown = ff.show("rope", dim=8, length=3)
    many = selecting([-2.0] * 2, lengths=(12, 13))
    found = [
        figures.encoding_response("rope", shown.profile),
        figures.profiles({"rope": many}),
        prediction_figure(predict("rope", "offset:1", trained=3, tested=5, width=8, with_openness=False)),
        figures.kernels(ff.kernel("rope", dim=8, length=2)),
        figures.kernels(ff.kernel("rope", dim=8, length=6)),
        figures.verdict_strip({"table1": {"reproduced": 1}, "table2": {"differs": 1}}),
    ]
    for figure in found:
        figure.canvas.draw()
        for axes in figure.axes:
            written = [label.get_text() for label in axes.get_xticklabels(which="both") if label.get_text()]
            assert written and all(re.fullmatch("[-\N{MINUS SIGN}]?\\d+", text) for text in written), written


@pytest.mark.parametrize(("low", "high"), [(-0.3, 0.4), (5.2, 5.3), (-39.0, 0.0), (0, 65536), (-1.55, -1.45)])
def test_an_axis_of_whole_numbers_has_two_ticks_whatever_it_spans(low, high):
    with mpl.rc_context():
        axes = new_figure(3, 3).add_subplot()
        axes.set_ylim(low, high)
        whole_numbers(axes, "y")
        found = ticks(axes, "y")
    assert len(found) >= 2 and all(tick == int(tick) for tick in found)


def panel(lengths: tuple[int, ...], learned: bool = True) -> WaysPanel:
    shares = dict(zip(("right", "diluted", "outcompeted", "rule_moved"), (0.4, 0.3, 0.2, 0.1), strict=True))
    rows = {name: np.full(len(lengths), share) for name, share in shares.items()}
    return WaysPanel("rope on offset:2", lengths, rows, (8, 16), learned)


@pytest.mark.parametrize(
    ("lengths", "lines", "words"),
    [
        ((12, 24, 48), [0.5], "trained to here"),
        ((4, 6, 12, 16, 48), [1.5, 3.5], "trained"),
        ((12,), [0.5], "trained to here"),
        ((24, 48), [-0.5], "trained to here"),
    ],
)
def test_ways_have_one_bar_a_tested_length_and_nothing_between(lengths, lines, words):
    """An area drawn from 12 to 24 says something of 16, which was not tested."""
    figure = ways_figure([panel(lengths)])
    figure.canvas.draw()
    (axes,) = figure.axes
    assert not axes.collections, "no areas"
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    assert sorted({round(bar.get_x() + bar.get_width() / 2, 6) for bar in bars}) == [*range(len(lengths))]
    assert [label.get_text() for label in axes.get_xticklabels()] == [*map(str, lengths)]
    assert [float(line.get_xdata()[0]) for line in axes.lines] == lines
    assert [text.get_text() for text in axes.texts] == [words]
    (words_drawn,) = axes.texts
    box = words_drawn.get_window_extent()
    assert box.x1 <= figure.bbox.x1 and box.x0 >= figure.bbox.x0


def test_ways_of_a_setting_that_was_not_learned_say_so():
    figure = ways_figure([panel((12, 24)), panel((12, 24), learned=False)])
    assert [axes.get_title() for axes in figure.axes] == ["rope on offset:2", "rope on offset:2: not learned"]


@pytest.mark.parametrize(
    ("task", "diverged", "titles"),
    [
        ("offset:2", False, ["Accuracy", "Peak height", "Selected offset", "Ways to fail"]),
        ("marker", False, ["Accuracy", "Peak height", "Selected offset"]),
        ("offset:2", True, ["Accuracy", "Peak height", "Selected offset"]),
    ],
)
def test_the_plot_of_a_result_has_the_ways_to_fail_where_they_are_told_apart(task, diverged, titles):
    result = untrained(small_cell(task=task))
    if diverged:
        result = dataclasses.replace(result, losses=np.array([NAN]))
    figure = TrainResult((result,), 1.0).plot()
    figure.canvas.draw()
    assert [axes.get_title() for axes in figure.axes] == titles
    words = {text.get_text().partition(":")[0] for text in figure.legends[0].texts}
    assert words >= ({"right", "diluted", "outcompeted", "rule moved"} if len(titles) == 4 else {"rope"})


@pytest.mark.parametrize(
    ("lengths", "labelled"),
    [((12, 16, 20, 24, 32, 48, 64, 96, 128, 192), 10), (tuple(2**power for power in range(3, 17)), 4)],
)
def test_labels_of_many_tested_lengths_do_not_run_into_each_other(lengths, labelled):
    figure = ways_figure([panel(lengths)] * 3)
    figure.canvas.draw()
    labels = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(labels) >= labelled
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(labels))


def written(points: list[DrawnPoint], **changes) -> list[str]:
    """Texts of a page's picture of selected offsets."""
    settings = {"lengths": LENGTHS, "bounds": (-39.0, 0.0), "whole": True, "trained": (12, 16), "chance": ()}
    frame = Frame(**settings | changes, label="")
    curves = [DrawnCurve("rope", 0, 0, 0, points)] if points else []
    return re.findall("<text[^>]*>([^<]*)</text>", picture(curves, frame))


def test_the_pages_pictures_of_places_have_whole_ticks_within_the_possible():
    same = [DrawnPoint(length, -2.0, -2.0, -2.0) for length in LENGTHS]
    assert written(same)[1:4] == ["-3", "-2", "-1"]
    assert written([DrawnPoint(4, 0.0, None, None)])[1:3] == ["-1", "0"]
    wide = [DrawnPoint(4, -2.0, -3.0, 0.0), DrawnPoint(40, -20.0, -39.0, 0.0)]
    assert written(wide)[1:6] == ["-40", "-30", "-20", "-10", "0"]
    assert "no selection" in written([])


def test_the_pages_pictures_say_where_training_is():
    some = [DrawnPoint(length, -2.0, None, None) for length in LENGTHS]
    assert written(some)[0] == "trained"
    for trained in ((1, 3), (48, 64)):
        assert written(some, trained=trained)[0] == f"trained on {trained[0]} to {trained[1]}: not tested"
    whole = picture([DrawnCurve("rope", 0, 0, 0, some)], Frame(LENGTHS, None, True, (12, 12), (), ""))
    (width,) = re.findall('class="trained"[^>]*width="([^"]*)"', whole)
    assert float(width) > 0
