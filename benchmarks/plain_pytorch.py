"""The training run that farfield is compared with, as one would write it in PyTorch.

One attention head with RoPE learns to copy the token K = 1 places before the query. Same model, task, batch,
initialization and optimizer as farfield's default cell (arXiv 2607.18759, section 5): d = 64, 20 tokens, 256
sequences a step of a length drawn once a step from 8..16, Adam at 1e-3. Every token of every sequence is
embedded and projected; only the last position asks. One process trains one head on one thread.

Alone::

    python benchmarks/plain_pytorch.py --steps 4000

With ``--serve`` it answers requests of ``speed.py``, one line each: ``train N``, ``accuracy L``, ``cpu``,
``rate`` or ``memory``.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, BATCH, SHORTEST, LONGEST, OFFSET = 20, 64, 256, 8, 16, 1


class Head(nn.Module):
    """One rotary attention head without MLP or normalization, the query at the last position."""

    def __init__(self, vocabulary: int, width: int, longest: int, base: float = 10000.0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.readout = nn.Linear(width, vocabulary, bias=False)
        frequencies = base ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(longest)[:, None] * frequencies
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotate(self, x: torch.Tensor, positions: slice) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        cos, sin = self.cos[positions], self.sin[positions]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        x = self.embedding(tokens)  # [sequence, position, width]
        query = self.rotate(self.query(x[:, -1:]), slice(length - 1, length))
        key = self.rotate(self.key(x), slice(0, length))
        logits = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])  # [sequence, 1, position]
        output = logits.softmax(dim=-1) @ self.value(x)
        return self.readout(output[:, 0])


class Run:
    """A model, its optimizer and the steps it has taken."""

    learning_rate = 1e-3

    def __init__(self, seed: int):
        torch.manual_seed(seed)
        self.lengths = random.Random(seed)
        self.model = self.build()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)

    def build(self) -> nn.Module:
        return Head(VOCABULARY, WIDTH, LONGEST)

    def asked(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Class scores of every question that the sequences ask, and the answers."""
        return self.model(tokens), tokens[:, tokens.shape[1] - 1 - OFFSET]

    def train(self, steps: int) -> list[float]:
        """Train for ``steps`` more steps; the loss of each, in nats."""
        self.model.train()
        losses = []
        for _ in range(steps):
            length = self.lengths.randint(SHORTEST, LONGEST)
            loss = functional.cross_entropy(*self.asked(torch.randint(VOCABULARY, (BATCH, length))))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def accuracy(self, length: int, sequences: int = 4096) -> float:
        """Share of the questions of fresh sequences of ``length`` (at most the longest trained) answered correctly."""
        self.model.eval()
        scores, answers = self.asked(torch.randint(VOCABULARY, (sequences, length)))
        return (scores.argmax(dim=-1) == answers).double().mean().item()


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rate(side: int, products: int) -> float:
    """GFLOP/s of products of square matrices."""
    factor = torch.ones(side, side)
    start = time.perf_counter()
    for _ in range(products):
        factor @ factor
    return 2 * side**3 * products / (time.perf_counter() - start) / 1e9


def serve(run: Run) -> None:
    """Answer requests on standard input, each with one line of JSON."""
    print(json.dumps({"torch": torch.__version__, "numpy": numpy.__version__}), flush=True)
    for request in sys.stdin:
        name, *value = request.split()
        if name == "train":
            answer = run.train(int(value[0]))
        elif name == "accuracy":
            answer = run.accuracy(int(value[0]))
        elif name == "cpu":
            answer = time.process_time()
        elif name == "rate":
            answer = rate(*map(int, value))
        else:
            answer = peak_memory()
        print(json.dumps(answer), flush=True)


def main(kind: type[Run], description: str, steps: int) -> None:
    """The command line of a script that trains one model on one core, ``steps`` steps unless told otherwise."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help="answer requests of speed.py on standard input")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = kind(options.seed)
    if options.serve:
        serve(run)
        return
    start = time.perf_counter()
    losses = run.train(options.steps)
    seconds = time.perf_counter() - start
    print(
        f"{options.steps} steps, {1000 * seconds / options.steps:.2f} ms each; loss {losses[-1]:.4f}, "
        f"accuracy {run.accuracy(LONGEST):.4f} at length {LONGEST}, memory {peak_memory() / 2**20:.0f} MiB"
    )


if __name__ == "__main__":
    main(Run, "Train one RoPE head with plain PyTorch on one core.", steps=4000)
