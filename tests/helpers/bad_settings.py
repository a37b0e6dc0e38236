"""Settings of encodings that cannot work: (spec, changes to a cell, what the error says). One list a family."""

from __future__ import annotations

from typing import Any

from farfield.models.head import Head

Row = tuple[str, dict[str, Any], str]

ROPE: list[Row] = [
    ("rope", {"model": Head(7)}, "d must be even: got d = 7"),
    ("rope:layout=diagonal", {}, "layout='diagonal' is not one of half, interleaved"),
    ("rope:base=1", {}, "rope:base=1 must be a number between 1 and 1e\\+30, both excluded"),
    ("rope:base=-5", {}, "rope:base=-5 must be"),
    ("rope:base=inf", {}, "rope:base=inf must be"),
    ("rope:base=nan", {}, "rope:base=nan must be"),
]

TABLES: list[Row] = [
    ("learned:-1", {}, "rows must be from 1 to"),
    ("learned:16", {"lengths": (12, 24)}, "length 24 .*learned position table of 16 rows"),
    ("learned:15", {"lengths": (12,)}, "length 16 .*learned position table of 15 rows"),
    ("key-only:-1", {}, "rows must be from 1 to"),
    ("key-only:16", {"lengths": (12, 24)}, "length 24 does not fit the table of key biases of 16 rows"),
    ("key-only:deviation=-1", {}, "key-only:deviation=-1 must be"),
]

ALIBI: list[Row] = [
    ("alibi:rule=bloom", {}, "unknown alibi:rule 'bloom': known: geometric, reference, same, zero-based"),
    ("alibi:rule=refrence", {}, "unknown alibi:rule 'refrence': did you mean 'reference'"),
    ("alibi:slope=nan", {}, "alibi:slope=nan must be a finite number"),
    ("alibi:slope=1e13", {}, "alibi:slope=1e\\+13 must be a number between -1e\\+12 and 1e\\+12"),
    ("alibi:slope=-inf", {}, "alibi:slope=-inf must be"),
]

BUCKETS: list[Row] = [
    ("t5:buckets=1", {}, "t5:buckets=1 must be a whole number from 2 to 2048"),
    ("t5:buckets=4096", {}, "t5:buckets=4096 must be"),
    ("t5:buckets=2,bidirectional=true", {}, "t5:buckets=2 must be a whole number from 4 to"),
    ("t5:buckets=7,bidirectional=true", {}, "t5:buckets=7 cannot be halved between past and future"),
    ("t5:distance=16", {}, "t5:distance=16 must be a whole number from 17 to .*the nearest 16 distances"),
    ("t5:distance=8,bidirectional=true", {}, "t5:distance=8 must be a whole number from 9 to"),
    ("t5:distance=1073741825", {}, "t5:distance=1073741825 must be"),
    ("t5:deviation=-1", {}, "t5:deviation=-1 must be a number between 0 and 1e\\+12, both included"),
    ("t5:deviation=nan", {}, "t5:deviation=nan must be"),
    ("clipped:0", {}, "clipped:reach=0 must be a whole number from 1 to"),
    ("clipped:100000", {}, "clipped:reach=100000 must be"),
    ("clipped:deviation=-0.5", {}, "clipped:deviation=-0.5 must be"),
]

VECTORS: list[Row] = [
    ("shaw:0", {}, "shaw:reach=0 must be a whole number from 1 to"),
    ("shaw:40000", {}, "shaw:reach=40000 must be"),
    ("shaw:deviation=inf", {}, "shaw:deviation=inf must be"),
    ("transformer-xl", {"model": Head(7)}, "transformer-xl pairs sines with cosines, so d must be even: got d = 7"),
    ("transformer-xl:base=1", {}, "transformer-xl:base=1 must be a number between 1 and .*both excluded"),
    ("transformer-xl:deviation=-1", {}, "transformer-xl:deviation=-1 must be"),
    ("cope:1", {}, "cope:rows=1 must be a whole number from 2 to"),
    ("cope:deviation=-1", {}, "cope:deviation=-1 must be"),
]

FUNCTIONS: list[Row] = [
    ("kerple-log:weight=0", {}, "kerple-log:weight=0 must be a number between 1e-12 and"),
    ("kerple-log:rate=-1", {}, "kerple-log:rate=-1 must be"),
    ("kerple-power:weight=-1", {}, "kerple-power:weight=-1 must be"),
    ("kerple-power:power=2", {}, "kerple-power:power=2 must be a number between 0 and 2, both excluded"),
    ("kerple-power:power=0", {}, "kerple-power:power=0 must be"),
    ("fire:hidden=0", {}, "fire:hidden=0 must be a whole number from 1 to"),
    ("fire:scale=0", {}, "fire:scale=0 must be a number between 1e-06 and"),
    ("fire:threshold=-4", {}, "fire:threshold=-4 must be"),
    ("fire:threshold=nan", {}, "fire:threshold=nan must be"),
]

SCALED_ROPE: list[Row] = [
    ("rope:fraction=0", {}, "rope:fraction=0 must be above 0 and at most 1"),
    ("rope:fraction=0.75", {"model": Head(4)}, "rope:fraction=0.75 of d = 4 rotates 3 coordinates"),
    ("p-rope:share=1.5", {}, "p-rope:share=1.5 must be above 0 and at most 1"),
    ("p-rope:share=0.1", {"model": Head(4)}, "p-rope:share=0.1 of d = 4 leaves no pair to rotate"),
    ("position-interpolation:factor=0.5", {}, "position-interpolation:factor=0.5 must be a number from 1"),
    ("ntk:factor=nan", {}, "ntk:factor=nan must be a finite number"),
    ("ntk:factor=0", {}, "ntk:factor=0 must be a number from 1"),
    ("ntk", {"model": Head(2)}, "ntk slows the slowest of several pairs, so d must be at least 4: got d = 2"),
    ("dynamic-ntk:original_length=-1", {}, "dynamic-ntk:original_length=-1 must be a positive whole number"),
    ("yarn:beta_fast=0.5", {}, "yarn:beta_slow=1 and beta_fast=0.5 must be positive numbers"),
    ("yarn:attention_factor=-1", {}, "yarn:attention_factor=-1 must be from 0.001 to 1000, or 0 to compute it"),
    ("llama3:low=4,high=1", {}, "llama3:low=4 and high=1 must be positive numbers of turns, low below high"),
    ("longrope:long_factor=1;2", {}, "longrope:long_factor has 2 numbers .*d = 64"),
    ("xpos:scale_base=0", {}, "xpos:scale_base=0 must be a number of positions, at least 1"),
]

SINUSOIDAL: list[Row] = [
    ("sinusoidal", {"model": Head(7)}, "sinusoidal positions pair a sine with a cosine, so d must be even: got d = 7"),
    ("sinusoidal:layout=half", {}, "sinusoidal:layout='half' is not one of interleaved, concatenated"),
    ("sinusoidal:base=1", {}, "sinusoidal:base=1 must be a number between 1 and 1e\\+30, both excluded"),
]

BAD_SETTINGS: list[Row] = [*ROPE, *SCALED_ROPE, *SINUSOIDAL, *TABLES, *ALIBI, *BUCKETS, *VECTORS, *FUNCTIONS]
