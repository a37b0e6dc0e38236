"""Settings that position regimes refuse."""

from __future__ import annotations

import pytest

from farfield.errors import FarfieldError
from farfield.positions import regimes
from farfield.tasks.offset import FixedOffset
from farfield.testing.positions import LONGEST, TRAINED, CoupledPairs, WholeOnly
from helpers.conformance_specs import REGIMES


@pytest.mark.parametrize("spec", [spec for spec in REGIMES if regimes.parse(spec).real])
def test_the_refusal_of_real_positions_names_the_regime_and_the_encoding(spec):
    with pytest.raises(FarfieldError, match=f"positions '{spec}' lie between whole numbers.*'WholeOnly' has no val"):
        regimes.parse(spec).check(LONGEST, TRAINED, CoupledPairs(), WholeOnly())


@pytest.mark.parametrize("name", list(regimes))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of position regime '{name}' 'nonsense'"):
        regimes.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize(
    ("spec", "task", "reason"),
    [
        ("fixed:-1", None, "fixed:start=-1 must be from 0"),
        ("fixed:16777216", None, "fixed:start=16777216 must be from 0 to"),
        ("random-start:39", None, "40 different positions cannot be drawn from the 39 of random-start:size=39"),
        ("random-subset:39", None, "40 different positions cannot be drawn from the 39 of random-subset:size=39"),
        ("random-subset:0", None, "cannot be drawn from the 0 of"),
        ("random-subset:99999999", None, "size=99999999 must be at most"),
        ("coupled", None, "positions 'coupled' are those of a task: pass the task"),
        ("coupled", FixedOffset(1), "task 'offset' does not say which of its tokens correspond"),
        ("coupled:most=19", CoupledPairs(), "coupled:most=19 must be from 20, the largest position of sequences of"),
        ("coupled:most=-1", CoupledPairs(), "coupled:most=-1 must be from 20"),
        ("rescale:up", None, "rescale:rounding='up' is not one of floor, nearest"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(spec, task, reason):
    with pytest.raises(FarfieldError, match=reason):
        regimes.parse(spec).check(LONGEST, TRAINED, task)
