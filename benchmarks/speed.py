"""farfield against a plain PyTorch script, in one run on one machine.

What is timed, per optimizer step and head on one core, every core busy:

* ``plain_pytorch.py``, one process a core, one thread each;
* farfield's lookup path, as `farfield.studies.running.run_chunk` runs it, one thread a core;
* farfield's dense path, the same way and over fewer steps.

Contenders take turns within a round, so a machine that slows down slows them all. Each is a process of its
own, which waits while another is timed. Farfield's times hold its test at length 16 besides its training.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LEAST_RATIO = 30.0
TORCH_STEPS = 300
DENSE_STEPS = 40
LENGTH = 16
# Steps after which losses are compared: each is a mean over the BEFORE steps up to it and over heads.
LOSS_AT = (300, 500, 1000)
BEFORE = 50
# The largest quotient of two mean losses that counts as the same training, batches being drawn differently.
SAME_LOSS = 2.0
# Side of the square matrices whose product gives the machine's rate, and products a measurement.
SIDE, PRODUCTS = 512, 50

EXAMPLE = """\
example:
  python benchmarks/speed.py --torch-python .bench-venv/bin/python --rounds 3 --json speed.json

exit codes: 0; 1 when the ratio PyTorch / farfield without compile time is under {ratio:g}, when the losses of
the two part by more than a factor of {loss:g} at the same step, or when either misses accuracy 1.0 after 4,000
steps; 2 when something needed is missing.
"""


class MissingError(Exception):
    """Something the benchmark needs is not there; the message says what."""


@dataclasses.dataclass(frozen=True)
class Operations:
    """Floating-point operations of matrix products a step and head, forward and backward, from the shapes.

    Both factors of every product are trained or depend on what is, so the backward pass costs two products
    of the same size. A multiplication and an addition count as two operations.
    """

    vocabulary: int
    width: int
    positions: float
    batch: int

    @property
    def lookup(self) -> dict[str, float]:
        """The lookup path: every token at every position once, whatever the batch."""
        v, d, p, b = self.vocabulary, self.width, self.positions, self.batch
        return {
            "projections": 3 * 3 * 2 * v * d * d,
            "score table": 3 * 2 * v * d * p * v,
            "class scores of tokens": 3 * 2 * v * d * v,
            "class scores of sequences": 3 * 2 * v * v * b,
        }

    @property
    def dense(self) -> dict[str, float]:
        """The dense path and the PyTorch script: every token of every sequence."""
        v, d, p, b = self.vocabulary, self.width, self.positions, self.batch
        return {
            "projections": 3 * 2 * b * (2 * p + 1) * d * d,
            "logits and mixing": 3 * 2 * 2 * b * p * d,
            "readout": 3 * 2 * b * d * v,
        }


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
    """The PyTorch script, one process a core."""

    def __init__(self, python: str, cores: int):
        script = str(Path(__file__).with_name("plain_pytorch.py"))
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
        """Train every head for ``steps`` more steps; milliseconds a step and head on one core."""
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


def serve_farfield(path: str, steps: int) -> None:
    """The process of one farfield path: answers ``run``, ``rate``, ``result``, ``cpu`` and ``memory``."""
    from concurrent.futures import ThreadPoolExecutor

    import jax
    import jax.numpy as jnp

    import farfield
    from farfield.encodings.rope import Rope
    from farfield.models.head import Head
    from farfield.studies import running
    from farfield.studies.cells import Cell
    from farfield.tasks.offset import FixedOffset

    jax.config.update("jax_enable_compilation_cache", False)
    cores, lanes = running.cores(), Head.lanes
    # At least eight heads, and the same number of chunks on every core.
    heads = lanes * cores * -(-8 // (lanes * cores))
    task = FixedOffset(1)
    cells = [
        Cell(Rope(), task, seed=seed, steps=steps, path=path, lengths=(LENGTH,)).resolved() for seed in range(heads)
    ]
    chunks = running.chunks(cells)
    start = time.perf_counter()
    running.programs(cells[0])
    compile_seconds = time.perf_counter() - start
    factor = jnp.ones((SIDE, SIDE))
    product = jax.jit(jnp.matmul).lower(factor, factor).compile(compiler_options=running.compiler_options())

    def multiply(_: int) -> None:
        for _ in range(PRODUCTS):
            product(factor, factor).block_until_ready()

    with ThreadPoolExecutor(cores) as pool:

        def seconds_of(work: Callable[[Any], Any], items: Sequence[Any]) -> tuple[float, list[Any]]:
            start = time.perf_counter()
            results = list(pool.map(work, items))
            return time.perf_counter() - start, results

        results = seconds_of(running.run_chunk, chunks)[1]  # the warm-up
        seconds_of(multiply, range(cores))
        shape = cells[0].shape
        print(
            json.dumps(
                {
                    "cores": cores,
                    "heads": heads,
                    "lanes": lanes,
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
                seconds, results = seconds_of(running.run_chunk, chunks)
                answer: Any = 1000 * seconds * cores / (heads * steps)
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


def measure(python: str, rounds: int, steps: int) -> dict[str, Any]:
    """Run everything; the numbers as one JSON-able record."""
    load = os.getloadavg()[0]

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def farfield(path: str, steps: int) -> Worker:
        return Worker([sys.executable, __file__, "--worker", path, "--steps", str(steps)], "")

    torch: Any = None
    started: list[Worker] = []
    try:
        # First a look at the interpreter, since compiling would be in vain without torch.
        torch = Torch(python, 1)
        torch.close()
        say("compiling farfield's lookup path, then its dense path ...")
        started.append(lookup := farfield("lookup", steps))
        setting = lookup.receive()
        started.append(dense := farfield("dense", min(DENSE_STEPS, steps)))
        dense_setting = dense.receive()
        torch = Torch(python, setting["cores"])
        torch_steps = min(TORCH_STEPS, steps)
        torch.train(min(BEFORE, steps))
        times: dict[str, list[float]] = {"pytorch": [], "lookup": [], "dense": [], "rate": []}
        busy: dict[str, list[float]] = {"pytorch": [], "lookup": [], "dense": []}
        contenders = {
            "pytorch": (lambda: torch.train(torch_steps), lambda: sum(torch.ask("cpu"))),
            "lookup": (lambda: lookup.ask("run"), lambda: lookup.ask("cpu")),
            "dense": (lambda: dense.ask("run"), lambda: dense.ask("cpu")),
        }
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}")
            for name, (train, cpu) in contenders.items():
                start, cpu_start = time.perf_counter(), cpu()
                times[name].append(train())
                busy[name].append((cpu() - cpu_start) / (time.perf_counter() - start) / setting["cores"])
            times["rate"].append(lookup.ask("rate"))
        if torch.steps < steps:
            say(f"the rest of PyTorch's {steps} steps, for accuracy and loss ...")
            torch.train(steps - torch.steps)
        result = lookup.ask("result")
        memory = {"pytorch": torch.ask("memory"), "lookup": lookup.ask("memory"), "dense": dense.ask("memory")}
        accuracy = {"pytorch": torch.ask(f"accuracy {LENGTH}"), "lookup": result["accuracy"]}
    finally:
        for worker in [*started, *([torch] if torch else [])]:
            worker.close()

    def mean_loss(losses: list[list[float]], at: int) -> float:
        return statistics.fmean(statistics.fmean(head[max(0, at - BEFORE) : at]) for head in losses)

    compared = [at for at in LOSS_AT if at <= steps] or [steps]
    padded = Operations(setting["vocabulary"], setting["model"]["width"], setting["longest"], setting["batch"])
    exact = dataclasses.replace(padded, positions=(setting["shortest"] + setting["longest"]) / 2)
    median = {name: statistics.median(values) for name, values in times.items()}
    work = setting["heads"] * steps / setting["cores"] / 1000
    return {
        "machine": {
            "processor": processor(),
            "cores": setting["cores"],
            "python": platform.python_version(),
            "load_before": load,
        },
        "versions": {"farfield": setting["farfield"], "jax": setting["jax"], **torch.versions},
        "setting": {key: setting[key] for key in ("heads", "lanes", "steps", "batch", "vocabulary")}
        | {"width": setting["model"]["width"]},
        "steps_timed": {"pytorch": torch_steps, "lookup": steps, "dense": dense_setting["steps"]},
        "ms_per_step_and_head": times,
        "median": median,
        "share_of_processors": {name: statistics.median(values) for name, values in busy.items()},
        "compile_seconds": setting["compile_seconds"],
        "job_seconds": {
            "pytorch": work * median["pytorch"],
            "lookup": work * median["lookup"],
            "lookup_and_compile": work * median["lookup"] + setting["compile_seconds"],
        },
        "ratio": median["pytorch"] / median["lookup"],
        "ratio_with_compile": work * median["pytorch"] / (work * median["lookup"] + setting["compile_seconds"]),
        "ratio_dense": median["pytorch"] / median["dense"],
        "peak_memory_bytes": memory,
        "operations": {"lookup": padded.lookup, "dense": padded.dense, "pytorch": exact.dense},
        "table_sizes": {
            "logits": setting["vocabulary"] ** 2 * setting["longest"],
            "token_scores": setting["vocabulary"] ** 2,
            "lookups": setting["batch"] * setting["longest"],
        },
        "losses": {
            str(at): {"pytorch": mean_loss(torch.losses, at), "lookup": mean_loss(result["losses"], at)}
            for at in compared
        },
        "accuracy": {name: min(values) for name, values in accuracy.items()},
    }


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def failures(numbers: dict[str, Any]) -> list[str]:
    """What the exit code is about, in words."""
    found = []
    if numbers["ratio"] < LEAST_RATIO:
        found.append(f"the ratio {numbers['ratio']:.1f} is under {LEAST_RATIO:g}")
    for at, losses in numbers["losses"].items():
        low, high = sorted(losses.values())
        # Before the first of LOSS_AT the loss still falls too fast to compare.
        if int(at) >= LOSS_AT[0] and high > SAME_LOSS * low:
            found.append(f"the losses at step {at} part by more than a factor of {SAME_LOSS:g}")
    if numbers["setting"]["steps"] >= 4000:
        for name, accuracy in numbers["accuracy"].items():
            if accuracy < 1.0:
                found.append(f"accuracy of {name} at length {LENGTH} is {accuracy:.4f}, not 1.0")
    return found


def report(numbers: dict[str, Any]) -> str:
    """The numbers as text."""
    machine, versions, setting = numbers["machine"], numbers["versions"], numbers["setting"]
    steps, times, median = numbers["steps_timed"], numbers["ms_per_step_and_head"], numbers["median"]
    memory, job, operations = numbers["peak_memory_bytes"], numbers["job_seconds"], numbers["operations"]
    rate, busy = median["rate"], numbers["share_of_processors"]
    names = {
        "pytorch": f"plain PyTorch, one process a core, {steps['pytorch']} steps",
        "lookup": f"farfield, lookup path, {steps['lookup']} steps",
        "dense": f"farfield, dense path, {steps['dense']} steps",
    }

    def mebibytes(size: int) -> str:
        return f"{size / 2**20:.0f} MiB"

    lines = [
        f"{setting['heads']} RoPE heads, offset 1, {setting['steps']} steps, batch {setting['batch']}, "
        f"d = {setting['width']}, {setting['vocabulary']} tokens, lengths 8..16",
        f"{machine['cores']} cores of {machine['processor']}; farfield {versions['farfield']}, jax {versions['jax']}, "
        f"torch {versions['torch']}, Python {machine['python']}; load before the run {machine['load_before']:.2f}",
        "",
        f"{'ms a step and head on one core, ' + str(len(times['pytorch'])) + ' rounds':<52}"
        f"{'min':>9}{'median':>9}{'max':>9}{'busy':>8}",
    ]
    for name, title in names.items():
        lines.append(f"  {title:<50}{min(times[name]):9.4f}{median[name]:9.4f}{max(times[name]):9.4f}{busy[name]:8.0%}")
    lines.append(
        "busy: share of the cores' time that the contender had; well under 100% says the machine did other work"
    )
    lines += [
        "",
        f"PyTorch / farfield, lookup path      {numbers['ratio']:6.1f}   (at least {LEAST_RATIO:g} wanted)",
        f"PyTorch / farfield, dense path       {numbers['ratio_dense']:6.1f}",
        f"the whole job: PyTorch {job['pytorch']:.1f} s (from its time a step), farfield {job['lookup']:.2f} s "
        f"+ compile {numbers['compile_seconds']:.1f} s = {job['lookup_and_compile']:.1f} s",
        f"PyTorch / farfield with compile      {numbers['ratio_with_compile']:6.1f}   "
        "(a program compiles once a shape, however many heads)",
        "",
        f"peak memory: PyTorch {mebibytes(max(memory['pytorch']))} in each of {len(memory['pytorch'])} processes; "
        f"farfield, one process: lookup {mebibytes(memory['lookup'])}, dense {mebibytes(memory['dense'])}",
        "",
        f"operations of matrix products a step and head; {rate:.0f} GFLOP/s a core, from {SIDE} x {SIDE} products",
        f"  {'':<40}{'MFLOP':>9}{'ms at this rate':>18}{'measured / that':>18}",
    ]
    for name, title in (
        ("lookup", "lookup path"),
        ("pytorch", "plain PyTorch, mean length 12"),
        ("dense", "dense path, padded to 16 positions"),
    ):
        total = sum(operations[name].values())
        floor = total / rate / 1e6
        lines.append(f"  {title:<40}{total / 1e6:9.2f}{floor:18.4f}{median[name] / floor:18.1f}")
    parts = ", ".join(f"{name} {value / 1e6:.2f}" for name, value in operations["lookup"].items())
    sizes = numbers["table_sizes"]
    lines += [
        f"  lookup path, MFLOP: {parts}",
        f"  and outside them: a table of {sizes['logits']} logits, {sizes['lookups']} lookups in it and as many "
        "scattered additions, sums by token, softmax, Adam, random tokens",
        "",
        "mean loss, nats (PyTorch, farfield): "
        + "; ".join(
            f"step {at}: {loss['pytorch']:.5f}, {loss['lookup']:.5f}" for at, loss in numbers["losses"].items()
        ),
        f"least accuracy of a head at length {LENGTH} after {setting['steps']} steps: PyTorch "
        f"{numbers['accuracy']['pytorch']:.4f}, farfield {numbers['accuracy']['lookup']:.4f}"
        + ("" if setting["steps"] >= 4000 else " (not judged under 4,000 steps)"),
    ]
    return "\n".join(lines)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Time farfield against a plain PyTorch script, both training RoPE heads on every core.",
        epilog=EXAMPLE.format(ratio=LEAST_RATIO, loss=SAME_LOSS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--torch-python", metavar="PYTHON", help="an interpreter that has benchmarks/requirements.txt")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each contender (default 5)")
    parser.add_argument("--steps", type=positive, default=4000, help="steps of farfield's heads (default 4000)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers there")
    parser.add_argument("--worker", choices=("lookup", "dense"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve_farfield(options.worker, options.steps)
        return 0
    if options.torch_python is None:
        print("speed.py: --torch-python is missing: the interpreter that has torch; try `make bench`", file=sys.stderr)
        return 2
    try:
        numbers = measure(options.torch_python, options.rounds, options.steps)
    except MissingError as missing:
        print(f"speed.py: {missing}", file=sys.stderr)
        return 2
    print(report(numbers))
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    found = failures(numbers)
    for failure in found:
        print(f"speed.py: {failure}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
