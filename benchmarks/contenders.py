"""The processes that speed.py times: each answers one line of JSON to each request."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LENGTH = 16
# Side of the square matrices whose product gives the machine's rate, and products a measurement.
SIDE, PRODUCTS = 512, 50
# Sequences that a transformer is tested on.
TESTED = 128


class MissingError(Exception):
    """Something the benchmark needs is not there; the message says what."""


class Worker:
    """A process that answers one line of JSON to each request, after one that says it is ready."""

    def __init__(self, command: Sequence[str], missing: str):
        self.missing = missing
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if missing else None,
                text=True,
                env=os.environ | {"JAX_PLATFORMS": "cpu"},
            )
        except OSError as error:
            raise MissingError(f"{command[0]}: {error.strerror}; {missing}") from None

    def send(self, request: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.process.stderr.read().strip().splitlines()[-1:] if self.process.stderr else []
            raise MissingError("; ".join([*last, self.missing or "a benchmark process ended early"]))
        return json.loads(line)

    def ask(self, request: str) -> Any:
        self.send(request)
        return self.receive()

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


class Torch:
    """A PyTorch script, one process a core."""

    def __init__(self, python: str, cores: int, script: str = "plain_pytorch.py"):
        script = str(Path(__file__).with_name(script))
        missing = (
            "--torch-python must have benchmarks/requirements.txt installed; `make bench` makes such an environment"
        )
        self.workers: list[Worker] = []
        try:
            for seed in range(cores):
                self.workers.append(Worker([python, script, "--serve", "--seed", str(seed)], missing))
            self.versions, *_ = [worker.receive() for worker in self.workers]
        except MissingError:
            self.close()
            raise
        self.losses: list[list[float]] = [[] for _ in self.workers]

    def ask(self, request: str) -> list[Any]:
        """The answers of all processes, which work at the same time."""
        for worker in self.workers:
            worker.send(request)
        return [worker.receive() for worker in self.workers]

    def train(self, steps: int) -> float:
        """Train every model for ``steps`` more steps; milliseconds a step and model on one core."""
        start = time.perf_counter()
        answers = self.ask(f"train {steps}")
        seconds = time.perf_counter() - start
        for losses, new in zip(self.losses, answers, strict=True):
            losses.extend(new)
        return 1000 * seconds / steps

    @property
    def steps(self) -> int:
        return len(self.losses[0])

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def start_farfield(kind: str, steps: int) -> Worker:
    """The process of one of farfield's contenders; what it says first is its setting."""
    return Worker([sys.executable, __file__, kind, str(steps)], "")


Contender = tuple[Callable[[], float], Callable[[], float]]


def take_turns(
    contenders: dict[str, Contender], rounds: int, cores: int, between: Callable[[int], None]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Let contenders work one after another within each round.

    Args:
        contenders: of each, what works and answers its time, and what answers the processor seconds it has had.
        between: called before each round with its number.

    Returns:
        What each answered, and the share of the cores' time that it had, a round.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    busy: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        between(turn)
        for name, (work, cpu) in contenders.items():
            start, cpu_start = time.perf_counter(), cpu()
            times[name].append(work())
            busy[name].append((cpu() - cpu_start) / (time.perf_counter() - start) / cores)
    return times, busy


def say(text: str) -> None:
    """Tell of progress, apart from the report."""
    print(text, file=sys.stderr, flush=True)


def cells_of(kind: Any, steps: int, cores: int) -> list[Any]:
    """What farfield trains: ``lookup`` and ``dense`` are RoPE heads by either path, ``transformer`` is one a core."""
    from farfield.cell import Cell
    from farfield.encodings.rope import Rope
    from farfield.models.head import Head
    from farfield.models.transformer import Transformer
    from farfield.tasks.offset import FixedOffset
    from farfield.tasks.shift import Shift

    if kind == "transformer":
        model = Transformer(width=192, heads=4, layers=2)
        # So few steps are timed that a test of the usual size would show.
        settings: dict[str, Any] = {"learning_rate": 3e-4, "sequences": TESTED, "steps": steps, "lengths": (LENGTH,)}
        return [Cell(Rope(), Shift(3), model=model, seed=seed, **settings).resolved() for seed in range(cores)]
    # At least eight heads, and the same number of chunks on every core.
    heads = Head.lanes * cores * -(-8 // (Head.lanes * cores))
    return [
        Cell(Rope(), FixedOffset(1), seed=seed, steps=steps, path=kind, lengths=(LENGTH,)).resolved()
        for seed in range(heads)
    ]


def serve_farfield(kind: str, steps: int) -> None:
    """The process of one of farfield's contenders: answers ``run``, ``rate``, ``result``, ``cpu`` and ``memory``."""
    from concurrent.futures import ThreadPoolExecutor

    import jax
    import jax.numpy as jnp

    import farfield
    from farfield import training
    from farfield.engine import base, programs

    jax.config.update("jax_enable_compilation_cache", False)
    cores = base.cores()
    cells = cells_of(kind, steps, cores)
    chunks = programs.chunks(cells)
    start = time.perf_counter()
    programs.programs_of_training(cells[0])
    programs.program_of_tests(cells[0])
    compile_seconds = time.perf_counter() - start
    factor = jnp.ones((SIDE, SIDE))
    product = jax.jit(jnp.matmul).lower(factor, factor).compile(compiler_options=programs.compiler_options())

    def multiply(_: int) -> None:
        for _ in range(PRODUCTS):
            product(factor, factor).block_until_ready()

    with ThreadPoolExecutor(cores) as pool:

        def seconds_of(work: Callable[[Any], Any], items: Sequence[Any]) -> tuple[float, list[Any]]:
            start = time.perf_counter()
            results = list(pool.map(work, items))
            return time.perf_counter() - start, results

        results = seconds_of(programs.run_chunk, chunks)[1]  # the warm-up
        seconds_of(multiply, range(cores))
        shape = cells[0].shape
        print(
            json.dumps(
                {
                    "cores": cores,
                    "heads": len(cells),
                    "lanes": cells[0].model.lanes,
                    "paddings": training.paddings(shape.longest),
                    "compile_seconds": compile_seconds,
                    "farfield": farfield.__version__,
                    "jax": jax.__version__,
                    "shortest": cells[0].shortest,
                    **dataclasses.asdict(shape),
                }
            ),
            flush=True,
        )
        for line in sys.stdin:
            request = line.strip()
            if request == "run":
                seconds, results = seconds_of(programs.run_chunk, chunks)
                answer: Any = 1000 * seconds * cores / (len(cells) * steps)
            elif request == "rate":
                seconds, _ = seconds_of(multiply, range(cores))
                answer = 2 * SIDE**3 * PRODUCTS / seconds / 1e9
            elif request == "result":
                finished = [result for chunk in results for result in chunk]
                answer = {
                    "accuracy": [result.accuracy[0].value for result in finished],
                    "losses": [result.losses.tolist() for result in finished],
                }
            elif request == "cpu":
                answer = time.process_time()
            else:
                answer = peak_memory()
            print(json.dumps(answer), flush=True)


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    serve_farfield(sys.argv[1], int(sys.argv[2]))
