"""What every registered position regime must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import pytest

from farfield.positions import regimes
from farfield.testing import POSITION_RULES, check_positions
from helpers.conformance_specs import REGIMES


@pytest.mark.parametrize("spec", REGIMES)
@pytest.mark.parametrize("rule", POSITION_RULES)
def test_the_regime_keeps_the_rule(spec, rule):
    check_positions(regimes.parse(spec), only=[rule])
