"""What every registered encoding must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import pytest

from farfield.testing import ENCODING_RULES, check_encoding
from helpers.support import ALL_SPECS, UNREAD_ROWS, name_of, own, parsed

PAIRS = [
    (spec, rule)
    for rule in ENCODING_RULES
    for spec in ALL_SPECS
    if ENCODING_RULES[rule].applies(parsed(spec)) and not (rule == "configuration" and name_of(spec) in own)
]


@pytest.mark.parametrize(("spec", "rule"), PAIRS)
def test_the_encoding_keeps_the_rule(spec, rule):
    check_encoding(parsed(spec), only=[rule], unread=UNREAD_ROWS.get(spec))
