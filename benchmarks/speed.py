"""farfield against a plain PyTorch script, in one run on one machine.

What is timed, per optimizer step and head on one core, every core busy:

* ``plain_pytorch.py``, one process a core, one thread each;
* farfield's lookup path, as `farfield.engine.programs.run_chunk` runs it, one thread a core;
* farfield's dense path, the same way and over fewer steps.

Then the transformer of `transformer.py`, farfield's against ``plain_pytorch_transformer.py``.

Contenders take turns within a round, so a machine that slows down slows them all. Each is a process of its
own, which waits while another is timed. Farfield's times hold its test at length 16 besides its training.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

import transformer
from contenders import LENGTH, SIDE, MissingError, Torch, Worker, say, start_farfield, take_turns

LEAST_RATIO = 30.0
TORCH_STEPS = 300
DENSE_STEPS = 40
# Steps after which losses are compared: each is a mean over the BEFORE steps up to it and over heads.
LOSS_AT = (300, 500, 1000)
BEFORE = 50
# The largest quotient of two mean losses that counts as the same training, batches being drawn differently.
SAME_LOSS = 2.0

EXAMPLE = """\
example:
  python benchmarks/speed.py --torch-python .bench-venv/bin/python --rounds 3 --json speed.json

exit codes: 0; 1 when the ratio PyTorch / farfield without compile time is under {ratio:g}, when the losses of
the two part by more than a factor of {loss:g} at the same step, when either misses accuracy 1.0 after 4,000
steps, or when the transformer's ratio is under {transformer:g} or its losses part; 2 when something needed is missing.
"""


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


def measure(python: str, rounds: int, steps: int) -> dict[str, Any]:
    """Run everything; the numbers as one JSON-able record."""
    load = os.getloadavg()[0]

    torch: Any = None
    started: list[Worker] = []
    try:
        # First a look at the interpreter, since compiling would be in vain without torch.
        torch = Torch(python, 1)
        torch.close()
        say("compiling farfield's lookup path, then its dense path ...")
        started.append(lookup := start_farfield("lookup", steps))
        setting = lookup.receive()
        started.append(dense := start_farfield("dense", min(DENSE_STEPS, steps)))
        dense_setting = dense.receive()
        torch = Torch(python, setting["cores"])
        torch_steps = min(TORCH_STEPS, steps)
        torch.train(min(BEFORE, steps))
        contenders = {
            "pytorch": (lambda: torch.train(torch_steps), lambda: sum(torch.ask("cpu"))),
            "lookup": (lambda: lookup.ask("run"), lambda: lookup.ask("cpu")),
            "dense": (lambda: dense.ask("run"), lambda: dense.ask("cpu")),
        }
        rates: list[float] = []

        def between(turn: int) -> None:
            say(f"round {turn + 1} of {rounds}")
            rates.append(lookup.ask("rate"))

        times, busy = take_turns(contenders, rounds, setting["cores"], between)
        times["rate"] = rates
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
        description="Time farfield against plain PyTorch scripts: RoPE heads, then a transformer, on every core.",
        epilog=EXAMPLE.format(ratio=LEAST_RATIO, loss=SAME_LOSS, transformer=transformer.LEAST_RATIO),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--torch-python", metavar="PYTHON", help="an interpreter that has benchmarks/requirements.txt")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each contender (default 5)")
    parser.add_argument("--steps", type=positive, default=4000, help="steps of farfield's heads (default 4000)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers there")
    options = parser.parse_args()
    if options.torch_python is None:
        print("speed.py: --torch-python is missing: the interpreter that has torch; try `make bench`", file=sys.stderr)
        return 2
    try:
        numbers = measure(options.torch_python, options.rounds, options.steps)
        numbers["transformer"] = transformer.measure(options.torch_python, options.rounds)
    except MissingError as missing:
        print(f"speed.py: {missing}", file=sys.stderr)
        return 2
    print(report(numbers))
    print()
    print(transformer.report(numbers["transformer"]))
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    found = failures(numbers) + transformer.failures(numbers["transformer"])
    for failure in found:
        print(f"speed.py: {failure}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
