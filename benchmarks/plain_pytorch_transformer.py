"""The transformer that farfield's is compared with, as one would write it in PyTorch.

Two pre-LayerNorm blocks with four RoPE heads copy the token K = 3 places back at every place (arXiv 2607.18759,
section 5.2): d = 192, 20 tokens, 256 sequences a step of a length drawn once a step from 8..16, Adam at 3e-4.
Batches have the drawn length, without padding. Everything else is `plain_pytorch.py`'s; alone::

    python benchmarks/plain_pytorch_transformer.py --steps 200
"""

from __future__ import annotations

import torch
from plain_pytorch import LONGEST, VOCABULARY, Run, main
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, OFFSET = 192, 4, 2, 3


class Block(nn.Module):
    """Causal rotary attention and an MLP of four widths, each added to the residual stream."""

    def __init__(self, width: int, heads: int, longest: int, base: float = 10000.0):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        head_width = width // heads
        frequencies = base ** (-torch.arange(0, head_width, 2) / head_width)
        angles = torch.arange(longest)[:, None] * frequencies
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sequences, length, width = x.shape
        projected = self.query_key_value(self.attention_norm(x)).view(sequences, length, 3, self.heads, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # [sequence, head, position, width] each
        attended = functional.scaled_dot_product_attention(self.rotate(query), self.rotate(key), value, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(sequences, length, width))
        return x + self.mlp(x)


class Transformer(nn.Sequential):
    """A decoder transformer: class scores at every place."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, longest: int):
        super().__init__(
            nn.Embedding(vocabulary, width),
            *(Block(width, heads, longest) for _ in range(layers)),
            nn.LayerNorm(width),
            nn.Linear(width, vocabulary, bias=False),
        )


class TransformerRun(Run):
    """A transformer, its optimizer and the steps it has taken."""

    learning_rate = 3e-4

    def build(self) -> nn.Module:
        return Transformer(VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST)

    def asked(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.model(tokens)[:, OFFSET:].reshape(-1, VOCABULARY), tokens[:, :-OFFSET].reshape(-1)


if __name__ == "__main__":
    main(TransformerRun, "Train one RoPE transformer with plain PyTorch on one core.", steps=200)
