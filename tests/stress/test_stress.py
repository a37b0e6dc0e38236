"""Studies under stress: killed, starved of disk, run twice at once, on a cluster whose workers die.

Run by ``make stress``, which prints the figures. Every test ends with the same question: is the folder that of an
undisturbed run, bit for bit, with nothing else in it?
"""

from __future__ import annotations

import contextlib
import http.server
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farfield.store.files import TEMPORARY
from farfield.store.reader import Store
from farfield.store.verify import verify

pytestmark = pytest.mark.slow

PYTHON = [sys.executable, "-c"]
COMMAND = [*PYTHON, "from farfield.cli import main; main()", "study", "run"]
ENCODINGS = ["rope", "alibi", "t5", "none", "clipped"]
STUDY = """
name = "stress"
question = "Does it survive?"
seeds = {seeds}

[common]
task = "offset:2"
model = "head:16"
steps = {steps}
batch = 32
sequences = 64
test = [12, 24]

[grid]
encoding = {encodings}
"""
KILLS = 50


def study_file(folder: Path, seeds: int = 40, steps: int = 40, encodings: list[str] = ENCODINGS) -> Path:
    """By default 200 small cells of five programs."""
    path = folder / f"stress-{seeds}-{steps}.toml"
    path.write_text(STUDY.format(seeds=seeds, steps=steps, encodings=encodings))
    return path


def start(file: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    command = [*COMMAND, str(file), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(file: Path, out: Path, *options: str) -> str:
    """Run to the end; what it said."""
    process = start(file, out, *options)
    said, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return said + errors


def tensors(folder: Path) -> set[str]:
    """Names of the cells' tensors, which end in checksums of their content; verify() compares the two."""
    return {path.name for path in folder.glob("*.safetensors")}


def measured(folder: Path) -> list[tuple]:
    return Store(folder).rows("SELECT identity, probe, length, value FROM measurements ORDER BY ALL").rows


def cells(folder: Path) -> int:
    return len(list(folder.glob("*-*.json")))


def assert_equal(folder: Path, undisturbed: Path, count: int):
    """All cells, none twice, nothing else, bit for bit those of another folder."""
    found = verify(folder)
    assert (found.cells, found.findings) == (count, [])
    assert len(tensors(folder)) == count
    assert tensors(folder) == tensors(undisturbed)
    # NaN, of which there are some, is unequal to itself.
    assert list(map(repr, measured(folder))) == list(map(repr, measured(undisturbed)))
    assert not list(folder.rglob(f"*{TEMPORARY}"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The 200 cells from one run in peace."""
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(study_file(folder), folder / "out")
    return folder / "out"


def children(process: int) -> list[int]:
    """Processes below one, at any depth."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = dict(map(int, line.split()) for line in table.splitlines())
    found = [process]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


def running(processes: list[int]) -> list[int]:
    """Those of some processes that are there, zombies aside."""
    states = subprocess.run(["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, processes))],
                            capture_output=True, text=True, check=False).stdout  # fmt: skip
    return [int(line.split()[0]) for line in states.splitlines() if not line.split()[1].startswith("Z")]


def test_kills_at_random_moments_lose_nothing_and_repeat_nothing(undisturbed, tmp_path):
    file, folder = study_file(tmp_path), tmp_path / "killed"
    moments, kept, seen, orphans = random.Random(0), set(), [], []
    for attempt in range(KILLS):
        process = start(file, folder)
        # A few lives end as they start, compile or have just begun; most amid their writing, which takes too little of
        # the time to be hit by moments drawn over all of it. None is so long that the last finds nothing left to do.
        end = time.monotonic() + (moments.uniform(0.5, 4) if moments.random() < 0.15 else 60)
        wanted = min(200, len(kept) + moments.randint(1, 150 // KILLS))
        while process.poll() is None and time.monotonic() < end and not (folder.exists() and cells(folder) >= wanted):
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.02))
        orphans += children(process.pid)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert "Traceback" not in errors, f"attempt {attempt}: {errors}"
        assert "damaged" not in errors, f"attempt {attempt}: {errors}"
        now = {path.name for path in folder.glob("*-*.json")}
        assert kept <= now, "a finished cell was lost"
        kept = now
        seen.append(len(now))
    print(f"\ncells after each of {KILLS} kills: {seen}")
    assert sum(count < 200 for count in seen) > 0.8 * KILLS, "kills hit no run under way"
    finish(file, folder)
    assert_equal(folder, undisturbed, 200)
    assert running(orphans or [0]) == []


def test_two_runs_of_one_study_at_once(undisturbed, tmp_path):
    file, folder = study_file(tmp_path), tmp_path / "both"
    both = [start(file, folder) for _ in range(2)]
    said = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert all("200 of 200 cells finished" in output for output, _ in said)
    assert not any("Traceback" in errors or "damaged" in errors for _, errors in said)
    assert_equal(folder, undisturbed, 200)


CLUSTER = """
import sys, time, distributed
if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        while True:
            time.sleep(0.2)
            print(*[worker.pid for worker in cluster.workers.values() if worker.pid], flush=True)
"""


class Cluster:
    """A LocalCluster of 3 workers in a process of its own."""

    def __init__(self, folder: Path):
        (script := folder / "cluster.py").write_text(CLUSTER)
        self.process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        assert self.process.stdout is not None
        self.address, self.workers = self.process.stdout.readline().strip(), []
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def _watch(self):
        for line in self.process.stdout or ():
            self.workers = list(map(int, line.split()))

    def close(self):
        below = children(self.process.pid)
        for process in (self.process.pid, *below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
        self.watcher.join()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.close()


def test_a_cluster_whose_workers_are_killed_every_few_seconds(cluster, undisturbed, tmp_path):
    file, folder, moments = study_file(tmp_path), tmp_path / "out", random.Random(1)
    process, killed = start(file, folder, "--engine", "dask", "--address", cluster.address), []
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(1.5, 3))
        if cluster.workers and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(moments.choice(cluster.workers), signal.SIGKILL)
                killed.append(cells(folder) if folder.exists() else 0)
    _, errors = process.communicate()
    print(f"\ncells when one of 3 workers was killed: {killed}")
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert len(killed) >= 3
    assert_equal(folder, undisturbed, 200)


def test_a_scheduler_that_is_lost_is_an_error_and_what_is_finished_is_kept(cluster, undisturbed, tmp_path):
    file, folder = study_file(tmp_path), tmp_path / "out"
    process = start(file, folder, "--engine", "dask", "--address", cluster.address)
    while process.poll() is None and not (folder.exists() and cells(folder) >= 8):
        time.sleep(0.05)
    cluster.close()
    started = time.monotonic()
    _, errors = process.communicate(timeout=120)
    print(f"\nscheduler lost: told after {time.monotonic() - started:.1f} s: {errors.splitlines()[-1]}")
    assert process.returncode == 2, errors
    assert "lost the Dask scheduler" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    kept = cells(folder)
    assert 8 <= kept < 200
    assert verify(folder).sound
    assert f"{kept} of them finished before" in finish(file, folder)
    assert_equal(folder, undisturbed, 200)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "tcp://no-such-host.invalid:8786", "nonsense", "ftp://x:1", "http"]
)
def test_an_address_without_a_scheduler_is_said_soon(address, tmp_path):
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    if address == "http":  # something else that answers
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
    started = time.monotonic()
    process = start(study_file(tmp_path), tmp_path / "out", "--engine", "dask", "--address", address)
    _, errors = process.communicate(timeout=60)
    server.server_close()
    print(f"\n{address}: {time.monotonic() - started:.1f} s: {errors.strip()}")
    assert process.returncode == 2
    assert f"cannot reach a Dask scheduler at {address}" in errors
    assert len(errors.splitlines()) == 1
    assert time.monotonic() - started < 25


BARE = """
import asyncio, sys
sys.modules["farfield"] = None  # as where it is not installed
import distributed

async def serve():
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard_address=None) as scheduler:
        async with distributed.Worker(scheduler.address, nthreads=1):
            print(scheduler.address, flush=True)
            await asyncio.sleep(600)

asyncio.run(serve())
"""


def test_a_worker_without_farfield_is_named(tmp_path):
    with subprocess.Popen([*PYTHON, BARE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as bare:
        try:
            assert bare.stdout is not None
            address = bare.stdout.readline().strip()
            process = start(study_file(tmp_path), tmp_path / "out", "--engine", "dask", "--address", address)
            _, errors = process.communicate(timeout=120)
            print(f"\n{errors.strip()}")
            assert process.returncode == 2
            assert "cannot run farfield" in errors
            assert len(errors.splitlines()) == 1
        finally:
            bare.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_signal_abandons_at_once_and_leaves_no_process(engine, number, request, tmp_path):
    file, folder, options = study_file(tmp_path, seeds=12, steps=20000), tmp_path / "out", ["--engine", engine]
    if engine == "dask":
        options += ["--address", request.getfixturevalue("cluster").address]
    process = start(file, folder, *options)
    assert process.stderr is not None
    while "training" not in (line := process.stderr.readline()):
        assert line, "ended before it began"
    time.sleep(12)
    below = children(process.pid)
    assert below == []
    assert process.poll() is None
    process.send_signal(number)
    started = time.monotonic()
    _, errors = process.communicate(timeout=60)
    print(f"\n{engine}, {number.name}: ended after {time.monotonic() - started:.2f} s ")
    assert process.returncode == 128 + number
    assert "stopped; finished models are kept" in errors
    assert "Traceback" not in errors
    assert verify(folder).sound


def test_a_disk_that_fills_up_ends_a_run_at_once_and_it_goes_on_when_there_is_space(undisturbed, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a disk")
    try:
        file, folder = study_file(tmp_path), disk / "out"
        process = start(file, folder)
        _, errors = process.communicate(timeout=300)
        kept = cells(folder)
        print(f"\n{kept} cells kept: {errors.splitlines()[-1]}")
        assert process.returncode == 2, errors
        assert "No space left on device; what is finished is kept" in errors.splitlines()[-1]
        assert "Traceback" not in errors
        assert 0 < kept < 200
        found = verify(folder)
        assert (found.sound, found.cells) == (True, kept), found.findings
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        assert f"{kept} of them finished before" in finish(file, folder)
        assert_equal(folder, undisturbed, 200)
    finally:
        subprocess.run(["umount", disk], check=True)
