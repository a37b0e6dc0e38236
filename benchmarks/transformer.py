"""The part of speed.py about the paper's two-layer transformer: farfield against ``plain_pytorch_transformer.py``.

One model a core on either side, one thread each. Both train from their first step; farfield starts again every
round, so the lengths it draws in one are those of all.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

from contenders import PRODUCTS, SIDE, Torch, Worker, say, start_farfield, take_turns

# Farfield has fewer products and pads more; both are known from the shapes and all but cancel on a machine where
# both libraries multiply equally fast. What is left is not to be slower.
LEAST_RATIO = 1.0
STEPS = 100
MOST_ROUNDS = 3
# Steps after which losses are compared, each a mean over the BEFORE steps up to it and over models: on the first
# plateau, and after the fall, which takes 20 steps and comes at a step that depends on the batches.
LOSS_AT = (40, 100)
BEFORE = 20
SAME_LOSS = 2.0


@dataclasses.dataclass(frozen=True)
class Operations:
    """Floating-point operations of matrix products a step, forward and backward, from the shapes.

    As for heads, the backward pass costs two products of the same size; logits and mixing count as dense.
    """

    vocabulary: int
    width: int
    layers: int
    positions: float
    batch: int

    def total(self, first_projections: bool) -> float:
        """Of all, or without queries, keys and values of the first layer."""
        d, p, b = self.width, self.positions, self.batch
        projections = (self.layers if first_projections else self.layers - 1) * 3 * d * d
        others = self.layers * (9 * d * d + 2 * p * d) + d * self.vocabulary
        return 3 * 2 * b * p * (projections + others)


def measure(python: str, rounds: int) -> dict[str, Any]:
    """Run both; the numbers as one JSON-able record."""
    farfield: Worker | None = None
    torch: Torch | None = None
    try:
        say("compiling farfield's transformer ...")
        farfield = start_farfield("transformer", STEPS)
        setting = farfield.receive()
        cores, rounds = setting["cores"], min(rounds, MOST_ROUNDS)
        torch = running = Torch(python, cores, "plain_pytorch_transformer.py")
        rates: dict[str, list[float]] = {"pytorch": [], "farfield": []}

        def between(turn: int) -> None:
            say(f"transformer, round {turn + 1} of {rounds}")
            rates["pytorch"].append(min(running.ask(f"rate {SIDE} {PRODUCTS}")))
            rates["farfield"].append(farfield.ask("rate"))

        contenders = {
            "pytorch": (lambda: running.train(STEPS), lambda: sum(running.ask("cpu"))),
            "farfield": (lambda: farfield.ask("run"), lambda: farfield.ask("cpu")),
        }
        times, busy = take_turns(contenders, rounds, cores, between)
        losses = {"pytorch": torch.losses, "farfield": farfield.ask("result")["losses"]}
        memory = {"pytorch": max(torch.ask("memory")), "farfield": farfield.ask("memory")}
    finally:
        for worker in (farfield, torch):
            if worker is not None:
                worker.close()
    lengths = range(setting["shortest"], setting["longest"] + 1)
    padded = [min(places for places in setting["paddings"] if places >= length) for length in lengths]
    exact = Operations(
        setting["vocabulary"],
        setting["model"]["width"],
        setting["model"]["layers"],
        statistics.fmean(lengths),
        setting["batch"],
    )
    median = {name: statistics.median(values) for name, values in times.items()}
    return {
        "setting": {name: setting[name] for name in ("cores", "batch", "vocabulary", "model")} | {"steps": STEPS},
        "ms_per_step_and_model": times,
        "median": median,
        "share_of_processors": {name: statistics.median(values) for name, values in busy.items()},
        "compile_seconds": setting["compile_seconds"],
        "ratio": median["pytorch"] / median["farfield"],
        "gflops_of_products": {name: statistics.median(values) for name, values in rates.items()},
        "operations": {
            "pytorch": exact.total(first_projections=True),
            "farfield": dataclasses.replace(exact, positions=statistics.fmean(padded)).total(first_projections=False),
        },
        "peak_memory_bytes": memory,
        "losses": {
            str(at): {
                name: statistics.fmean(statistics.fmean(model[at - BEFORE : at]) for model in models)
                for name, models in losses.items()
            }
            for at in LOSS_AT
        },
    }


def failures(numbers: dict[str, Any]) -> list[str]:
    """What the exit code is about, in words."""
    found = []
    if numbers["ratio"] < LEAST_RATIO:
        found.append(f"the transformer's ratio {numbers['ratio']:.2f} is under {LEAST_RATIO:g}")
    for at, losses in numbers["losses"].items():
        low, high = sorted(losses.values())
        if high > SAME_LOSS * low:
            found.append(f"the transformers' losses at step {at} part by more than a factor of {SAME_LOSS:g}")
    return found


def report(numbers: dict[str, Any]) -> str:
    """The numbers as text."""
    setting, times, median = numbers["setting"], numbers["ms_per_step_and_model"], numbers["median"]
    model, rounds = setting["model"], len(times["pytorch"])
    lines = [
        f"a RoPE transformer a core, shift by 3, {setting['steps']} steps a round, batch {setting['batch']}, "
        f"d = {model['width']}, {model['heads']} heads, {model['layers']} layers, lengths 8..16",
        "",
        f"{f'ms a step and model on one core, {rounds} rounds':<52}{'min':>9}{'median':>9}{'max':>9}{'busy':>8}",
    ]
    names = {"pytorch": "plain PyTorch, one process a core", "farfield": "farfield"}
    for name, title in names.items():
        busy = numbers["share_of_processors"][name]
        lines.append(f"  {title:<50}{min(times[name]):9.1f}{median[name]:9.1f}{max(times[name]):9.1f}{busy:8.0%}")
    lines += [
        "",
        f"PyTorch / farfield, transformer      {numbers['ratio']:6.2f}   (at least {LEAST_RATIO:g} wanted; "
        f"farfield compiles for {numbers['compile_seconds']:.1f} s, once a shape)",
        "",
        f"matrix products a step and model; GFLOP/s a core of {SIDE} x {SIDE} products by the library itself",
        f"  {'':<40}{'GFLOP':>9}{'GFLOP/s':>9}{'ms at this rate':>18}{'share of the step':>19}",
    ]
    for name, title in names.items():
        operations, rate = numbers["operations"][name], numbers["gflops_of_products"][name]
        floor = operations / rate / 1e6
        lines.append(f"  {title:<40}{operations / 1e9:9.2f}{rate:9.0f}{floor:18.1f}{floor / median[name]:19.0%}")
    memory = {name: f"{size / 2**20:.0f} MiB" for name, size in numbers["peak_memory_bytes"].items()}
    lines += [
        "",
        "mean loss, nats (PyTorch, farfield): "
        + "; ".join(
            f"step {at}: {loss['pytorch']:.5f}, {loss['farfield']:.5f}" for at, loss in numbers["losses"].items()
        ),
        f"peak memory: PyTorch {memory['pytorch']} in each process; farfield, one process, {memory['farfield']}",
    ]
    return "\n".join(lines)
