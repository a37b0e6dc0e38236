"""Killed at any moment and started again, a run loses nothing, repeats nothing and ends as if undisturbed.

Run by ``make test-slow``.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

KILLS = 20
HEADS = 24
COMMAND = [sys.executable, "-c", "from farfield.cli import main; main()", "train", "--task", "offset:2"]
COMMAND += ["--seeds", str(HEADS), "--json"]


def finished(folder):
    return {path.name for path in folder.glob("*-*.json")}


def rows(folder):
    """Identity, seed and accuracy at the longest length of every cell, read without the package."""
    cells = [json.loads(path.read_text()) for path in folder.glob("*-*.json")]
    found = [
        (cell["identity"], cell["config"]["seed"], cell["measurements"]["by_length"]["accuracy"]["48"])
        for cell in cells
    ]
    return sorted(found, key=lambda row: row[1])


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_repeat_nothing(tmp_path):
    undisturbed = tmp_path / "undisturbed"
    started = time.monotonic()
    whole = subprocess.run([*COMMAND, "--out", str(undisturbed)], capture_output=True, text=True, check=True)
    duration = time.monotonic() - started

    folder = tmp_path / "killed"
    moments = random.Random(0)
    kept: set[str] = set()
    for attempt in range(KILLS):
        process = subprocess.Popen([*COMMAND, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            # Drawn over the whole run, so that some kills hit the start and some the writing of results.
            _, errors = process.communicate(timeout=moments.uniform(0.3, 1.0) * duration)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
        assert b"Traceback" not in errors, f"attempt {attempt}: {errors.decode()}"
        assert b"damaged" not in errors, f"attempt {attempt}: {errors.decode()}"
        now = finished(folder) if folder.exists() else set()
        assert kept <= now, "a finished head was lost"
        kept = now

    last = subprocess.run([*COMMAND, "--out", str(folder)], capture_output=True, text=True, check=True)
    assert last.stderr.count("finished before") == bool(kept)
    identities = Counter(identity for identity, *_ in rows(folder))
    assert len(identities) == HEADS
    assert set(identities.values()) == {1}
    assert rows(folder) == rows(undisturbed)
    ours, theirs = json.loads(last.stdout), json.loads(whole.stdout)
    for key in ("accuracy", "selected_offset", "peak", "carrier", "dilution", "identities"):
        assert ours[key] == theirs[key]
    assert not list(folder.glob("*.writing")), "leftovers of killed processes"

    again = subprocess.run([*COMMAND, "--out", str(folder)], capture_output=True, text=True, check=True)
    assert f"nothing to train: {HEADS} models finished before" in again.stderr
