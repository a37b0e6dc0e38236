"""The paper's central claims at full fidelity. Run by ``make test-slow``."""

import pytest

from farfield.papers import PAPERS
from farfield.papers.reproduce import reproduce


@pytest.mark.slow
def test_every_number_is_reproduced(tmp_path):
    outcome = reproduce(PAPERS["implicit-bias"], budget="full", out=tmp_path)
    differing = [f"{verdict.item} {verdict.cell}: {verdict.why}" for verdict in outcome.verdicts
                 if verdict.verdict == "differs"]  # fmt: skip
    assert differing == []
    assert outcome.counts()["reproduced"] == 119
    measured = {(verdict.item, verdict.cell): verdict.measured for verdict in outcome.verdicts}
    for offset in (1, 2, 3):
        assert measured["table2", f"K={offset} share of lengths selecting -K"] == 1
    for length in (20, 24, 32, 40, 48):
        assert measured["table1", f"learned accuracy L={length}"] < 0.1
