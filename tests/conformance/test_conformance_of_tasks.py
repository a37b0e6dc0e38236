"""What every registered task must do: registering one is enough for it to be tested here."""

from __future__ import annotations

import pytest

from farfield.tasks import tasks
from farfield.testing import TASK_RULES, check_task
from helpers.task_examples import TASKS

PAIRS = [(spec, rule) for rule in TASK_RULES for spec in TASKS if TASK_RULES[rule].applies(tasks.parse(spec))]


@pytest.mark.parametrize(("spec", "rule"), PAIRS)
def test_the_task_keeps_the_rule(spec, rule):
    check_task(tasks.parse(spec), only=[rule])
