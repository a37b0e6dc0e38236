"""Settings that normalizers refuse."""

from __future__ import annotations

import pytest

from farfield.errors import FarfieldError
from farfield.normalizers import normalizers


@pytest.mark.parametrize("name", list(normalizers))
def test_an_unknown_setting_is_refused(name):
    with pytest.raises(FarfieldError, match=f"unknown setting of normalizer '{name}' 'nonsense'"):
        normalizers.parse(f"{name}:nonsense=1")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("softmax:0", "softmax:temperature=0 must be from 1e-06 to 1e"),
        ("softmax:-1", "softmax:temperature=-1 must be"),
        ("softmax:nan", "softmax:temperature=nan must be"),
        ("softmax:inf", "softmax:temperature=inf must be"),
        ("log-n:1", "log-n:trained=1 must be at least 2"),
        ("log-n:-3", "log-n:trained=-3 must be at least 2"),
        ("ssmax:0", "ssmax:initial=0 must be a number other than 0"),
        ("ssmax:nan", "ssmax:initial=nan must be"),
        ("linear-normalized:mean", "by='mean' is not one of sum, count"),
        ("linear-normalized:floor=0", "floor=0 must be from"),
        ("sigmoid:nan", "sigmoid:offset=nan must be"),
        ("sigmoid:log_n=inf", "sigmoid:log_n=inf must be"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(spec, reason):
    with pytest.raises(FarfieldError, match=reason):
        normalizers.parse(spec).check()
