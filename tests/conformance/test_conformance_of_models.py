"""What every registered model must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import pytest

from farfield.models import models
from farfield.normalizers import normalizers
from farfield.testing import MODEL_RULES, check_model
from helpers.conformance_specs import MODELS, UNREAD
from helpers.support import the_rest_slow

DISTRIBUTIONS = [name for name in normalizers if normalizers.parse(name).sums_to_one]


@pytest.mark.parametrize("spec", MODELS)
@pytest.mark.parametrize("rule", MODEL_RULES)
def test_the_model_keeps_the_rule(spec, rule):
    check_model(models.parse(spec), only=[rule], unread=UNREAD.get(spec, ()))


@pytest.mark.parametrize("name", the_rest_slow(DISTRIBUTIONS, ["softmax", "entmax"]))
@pytest.mark.parametrize("spec", ["head:heads=2", "transformer:heads=2"])
def test_weights_are_a_distribution_by_every_normalizer_that_claims_it(spec, name):
    check_model(models.parse(spec), only=["distribution"], normalizer=normalizers.parse(name))
