"""Everything that is measured on a finished cell: one table, from which stores, studies, statistics and reports read.

To add a measure, add a row to :data:`MEASURES`. Free of JAX, because whoever reads a store needs the names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from farfield.probes import attention

# A farfield.results.result.CellResult, whose file imports this one.
AnyResult = Any
# What an accuracy counts: tokens, or sequences where each asks for one token.
Counted = Literal["tokens", "sequences", "both"]
SHARE_OF: dict[Counted, str] = {
    "tokens": "share of tokens",
    "sequences": "share of sequences",
    "both": "share of tokens (of sequences where one token is asked for)",
}


@dataclass(frozen=True)
class Measure:
    """One measure of a finished cell.

    Attributes:
        name: in stores and study files.
        title: for readers.
        meaning: in a few words; empty where the title says it.
        of: from a result to a number for each test length (``by`` is ``length``), or to one number; None in place of
            a number that this cell does not have, which is then not stored.
        by: whether it is measured at each test length or once a cell.
        kind: a ``share`` lies in [0, 1], a ``place`` is a whole number of keys, a ``number`` is any.
        panel: whether every report draws it against length.
        mechanism: whether every report lists it, of measures once a cell.
    """

    name: str
    title: str
    meaning: str
    of: Callable[[AnyResult], Any]
    by: Literal["length", "cell"] = "length"
    kind: Literal["share", "place", "number"] = "number"
    panel: bool = False
    mechanism: bool = False


def _seen(result: AnyResult) -> tuple[Any, Any, Any]:
    """What the probes of mean attention read."""
    return result.mean_attention, result.lengths, result.attention_error


def _of_accuracy(field: str) -> Callable[[AnyResult], Sequence[float]]:
    return lambda result: [getattr(share, field) for share in result.accuracy]


def _of_target(field: str) -> Callable[[AnyResult], Sequence[float | None]]:
    """Of the target key: not there for a task without one."""

    def of(result: AnyResult) -> list[float | None]:
        there = np.isfinite(result.target_attention)
        return [value if known else None for value, known in zip(getattr(result, field), there, strict=True)]

    return of


def _of_ways(field: str) -> Callable[[AnyResult], Any]:
    return lambda result: None if result.ways is None else getattr(result.ways, field)


def _without_first(result: AnyResult) -> list[float | None]:
    """Selected offsets without the first key: of a single key nothing is left."""
    offsets = attention.selected_offset(*_seen(result), skip_first=True)
    return [offset if length > 1 else None for offset, length in zip(offsets, result.lengths, strict=True)]


def _of_carrier(field: str) -> Callable[[AnyResult], Any]:
    return lambda result: getattr(result.carrier, field)


def _of_dilution(field: str) -> Callable[[AnyResult], float]:
    return lambda result: getattr(result.dilution, field)


def _of_norms(field: str) -> Callable[[AnyResult], Any]:
    return lambda result: None if result.table_norms is None else getattr(result.table_norms, field)


_TABLE = (
    Measure(
        "accuracy",
        "Token accuracy",
        "share of tokens answered correctly",
        _of_accuracy("value"),
        kind="share",
        panel=True,
    ),
    Measure("accuracy_low", "Token accuracy, lower end", "of its 95% interval", _of_accuracy("low"), kind="share"),
    Measure("accuracy_high", "Token accuracy, upper end", "of its 95% interval", _of_accuracy("high"), kind="share"),
    Measure(
        "chance", "Chance", "accuracy of the best guess that ignores the sequence", _of_accuracy("chance"), kind="share"
    ),
    Measure(
        "sequence_accuracy",
        "Sequence accuracy",
        "share of sequences with every token right",
        lambda result: result.sequence_accuracy,
        kind="share",
    ),
    Measure(
        "overlap",
        "Overlap",
        "expected share of test sequences that training has seen",
        lambda result: result.overlap,
        kind="share",
    ),
    Measure(
        "selected",
        "Selection",
        "queries whose largest weight is on the right key",
        _of_target("selected"),
        kind="share",
        panel=True,
    ),
    Measure(
        "peak_height",
        "Peak height",
        "largest mean attention weight",
        lambda result: result.peak_height,
        kind="share",
        panel=True,
    ),
    Measure(
        "selected_offset",
        "Selected offset",
        "key minus query, where mean attention is largest; of seeds that select one",
        lambda result: result.selected_offset,
        kind="place",
    ),
    Measure(
        "selected_offset_without_first",
        "Selected offset but the first key",
        "key minus query; of seeds that select one",
        _without_first,
        kind="place",
    ),
    Measure(
        "pin",
        "Pin",
        "key position where mean attention is largest",
        lambda result: attention.pin(*_seen(result)),
        kind="place",
    ),
    Measure(
        "target_attention",
        "Mass on the target",
        "mean attention weight of the right key",
        _of_target("target_attention"),
        kind="share",
    ),
    Measure(
        "rule_moved",
        "Rule moved",
        "share of sequences lost where mean attention picks another key",
        _of_ways("rule_moved"),
        kind="share",
    ),
    Measure(
        "outcompeted",
        "Outcompeted",
        "share lost where another key is larger in that sequence alone",
        _of_ways("outcompeted"),
        kind="share",
    ),
    Measure(
        "diluted",
        "Diluted",
        "share lost although the right key has the largest weight",
        _of_ways("diluted"),
        kind="share",
    ),
    Measure(
        "right_although_outcompeted",
        "Right although outcompeted",
        "share of sequences",
        _of_ways("right_although_outcompeted"),
        kind="share",
    ),
    Measure(
        "head", "Head", "number of the head that the measures of one head are of", lambda result: result.head, by="cell"
    ),
    Measure(
        "final_loss",
        "Final loss",
        "training loss of the last step, in nats",
        lambda result: result.losses[-1],
        by="cell",
    ),
    Measure(
        "equivariance_error",
        "Equivariance error",
        "largest distance between profiles of two lengths in relative coordinates",
        lambda result: result.equivariance_error,
        by="cell",
    ),
    Measure(
        "absolute_error",
        "Absolute error",
        "the same in absolute coordinates",
        lambda result: attention.absolute_error(result.mean_attention, result.lengths),
        by="cell",
    ),
    Measure(
        "margin",
        "Margin",
        "mean logit of the target above the largest other, in logit units",
        lambda result: result.margin,
        by="cell",
    ),
    Measure(
        "top_energy",
        "Top energy",
        "share of the energy of W_Q^T W_K that its largest singular value holds",
        lambda result: result.top_energy[result.head],
        by="cell",
    ),
    Measure(
        "carrier_key",
        "Carrier of keys",
        "share of the energy of keys that their mean holds",
        _of_carrier("key"),
        by="cell",
        kind="share",
        mechanism=True,
    ),
    Measure(
        "carrier_query",
        "Carrier of queries",
        "share of the energy of queries that their mean holds",
        _of_carrier("query"),
        by="cell",
        kind="share",
        mechanism=True,
    ),
    Measure(
        "carrier_key_debiased",
        "Carrier of keys, debiased",
        "the same without what unrelated keys would show",
        _of_carrier("key_debiased"),
        by="cell",
    ),
    Measure(
        "carrier_query_debiased",
        "Carrier of queries, debiased",
        "the same without what unrelated queries would show",
        _of_carrier("query_debiased"),
        by="cell",
    ),
    Measure(
        "carrier_cos_rotated",
        "Carrier cosine, rotated",
        "cos(m_Q, R_-K m_K): 1 for a carrier rotated exactly to the target",
        _of_carrier("cos_rotated"),
        by="cell",
    ),
    Measure("carrier_cos_unrotated", "Carrier cosine", "cos(m_Q, m_K)", _of_carrier("cos_unrotated"), by="cell"),
    Measure(
        "carrier_peak",
        "Carrier peak",
        "offset where the carrier alone would attend most",
        _of_carrier("peak"),
        by="cell",
        kind="place",
    ),
    Measure(
        "dilution_alpha",
        "Dilution intercept",
        "alpha of peak height = 1 / (alpha + c (L - 1))",
        _of_dilution("alpha"),
        by="cell",
        mechanism=True,
    ),
    Measure("dilution_c", "Dilution slope", "c of the same law", _of_dilution("c"), by="cell", mechanism=True),
    Measure(
        "dilution_r2",
        "Dilution R²",
        "share of the variance that the law explains",
        _of_dilution("r2"),
        by="cell",
        kind="share",
        mechanism=True,
    ),
    Measure(
        "norm_inside",
        "Norm of trained rows",
        "mean norm of position vectors at trained positions",
        _of_norms("inside"),
        by="cell",
    ),
    Measure(
        "norm_outside",
        "Norm of rows never trained",
        "the same at positions that training never met",
        _of_norms("outside"),
        by="cell",
    ),
)
# By name, in the order in which they are stored.
MEASURES = {measure.name: measure for measure in _TABLE}


def names_of(**wanted: Any) -> tuple[str, ...]:
    """Names of the measures whose attributes have these values.

    >>> names_of(by="length", kind="place")
    ('selected_offset', 'selected_offset_without_first', 'pin')
    """
    return tuple(
        name
        for name, measure in MEASURES.items()
        if all(getattr(measure, attribute) == value for attribute, value in wanted.items())
    )


def measured(result: AnyResult) -> Iterator[tuple[str, int | None, float]]:
    """Every number of a result: name, test length (None for one of the cell), value."""
    for name, measure in MEASURES.items():
        found = measure.of(result)
        if measure.by == "cell":
            values = [(None, found)]
        else:
            values = [] if found is None else zip(result.cell.lengths, found, strict=True)
        for length, value in values:
            if value is not None:
                yield name, length, float(value)


def title_of(name: str, counted: Counted = "tokens") -> str:
    """Title of a measure; the name itself of one that this version does not know."""
    if name == "accuracy" and counted == "sequences":
        return "Accuracy"
    return MEASURES[name].title if name in MEASURES else name


def meaning_of(name: str, counted: Counted = "tokens") -> str:
    """What a measure is, in a few words; empty for one that this version does not know."""
    if name == "accuracy":
        return f"{SHARE_OF[counted]} answered correctly"
    return MEASURES[name].meaning if name in MEASURES else ""


def kind_of(name: str) -> str:
    """Kind of a measure; a ``number`` for one that this version does not know."""
    return MEASURES[name].kind if name in MEASURES else "number"


def counted_by(rows: Iterable[str]) -> Counted:
    """What accuracies of such tasks count; ``rows`` are their :attr:`farfield.tasks.Task.rows`.

    >>> counted_by(["last", "last"])
    'sequences'
    """
    found = {*rows}
    if found == {"last"}:
        return "sequences"
    return "both" if "last" in found else "tokens"
