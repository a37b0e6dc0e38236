from __future__ import annotations

import math


def overlap(task, vocabulary, length, draws):
    space = task.sample_space(vocabulary, length)
    if space <= 1:
        return 1.0
    return -math.expm1(draws * math.log1p(-1.0 / space))
