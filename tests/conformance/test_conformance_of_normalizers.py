"""What every registered normalizer must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import pytest

from farfield.normalizers import normalizers
from farfield.testing import NORMALIZER_RULES, check_normalizer
from helpers.conformance_specs import NORMALIZERS, UNREAD

PAIRS = [
    (spec, rule)
    for rule in NORMALIZER_RULES
    for spec in NORMALIZERS
    if NORMALIZER_RULES[rule].applies(normalizers.parse(spec))
]


@pytest.mark.parametrize(("spec", "rule"), PAIRS)
def test_the_normalizer_keeps_the_rule(spec, rule):
    check_normalizer(normalizers.parse(spec), only=[rule], unread=UNREAD.get(spec, ()))
