"""Figures: every curve tells itself from every other."""

from __future__ import annotations

from farfield.report.drawing import style_of


def test_thirteen_encodings_and_many_more_differ_in_colour_dash_or_marker_at_once():
    """seaborn issue 680: colours alone repeat after seven."""
    looks = [style_of(index) for index in range(49)]
    assert len({(str(look["color"]), str(look["linestyle"]), str(look["marker"])) for look in looks}) == 49
    for index, look in enumerate(looks[7:13], start=7):
        twin = looks[index - 7]  # of the same colour
        assert look["linestyle"] != twin["linestyle"]
        assert look["marker"] != twin["marker"]
