"""Tables of rotary kernels for the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.table import Table

from farfield.analysis.kernels import KernelComparison, KernelEntry
from farfield.probes.kernel_dilution import TargetDilution


def kernel_tables(compared: KernelComparison) -> Iterable[Table | str]:
    """Shape of each kernel, then margin and dilution by target, each with what its columns mean."""
    yield (
        f"Rotary kernels, d = {compared.dim}, context {compared.length}, trained to {compared.trained}, logit "
        f"{compared.logit_scale:g} at the target; "
        + ("pairs weigh alike." if compared.weights is None else "weighted.")
    )
    yield _shapes(compared)
    yield (
        "s is the distance from the target, g(0) = 1. Re-alignment: the largest g(s) past the first valley, often a "
        f"ripple on the peak's flank. At s >= {compared.trained}: the largest at offsets that are new to the head. "
        "Unique: g(0) is the only maximum."
    )
    yield _targets(compared)
    yield (
        "The target lies K places before the query. Margin: its logit above that of its strongest rival. Mass: its "
        f"attention, by the softmax over all offsets, in contexts of {compared.trained} and {compared.length}; then "
        "the shortest contexts in which it is under 1/2 (start: it never is more), and under half of that at "
        "the training length."
    )
    if any(entry.changes for entry in compared.entries):
        yield "(*) Shorter contexts have another kernel: judged at the whole length alone."
    if any(entry.logit_scale != compared.logit_scale for entry in compared.entries):
        scales = {f"{entry.title} {entry.logit_scale:.2f}": None for entry in compared.entries
                  if entry.logit_scale != compared.logit_scale}  # fmt: skip
        yield f"Logit at the target with the encoding's own factor: {', '.join(scales)}."
    if compared.weights is None:
        yield "A trained head weights the pairs: it has a sharper peak, more mass, and higher re-alignments than these."


def _shapes(compared: KernelComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("encoding", overflow="fold")
    for name in ("base", "g(1)/g(0)", "re-alignment", "at s", f"s >= {compared.trained}", "at s"):
        table.add_column(name, justify="right")
    table.add_column("unique")
    for entry in compared.entries:
        table.add_row(
            *_names(entry),
            f"{entry.breadth:.4f}",
            *_place(entry.realignment, entry.realignment_at),
            *_place(entry.beyond_trained, entry.beyond_trained_at),
            "yes" if entry.unique else "[bold red]no[/]",
        )
    return table


def _targets(compared: KernelComparison) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("encoding", overflow="fold")
    masses = (f"mass at {compared.trained}", f"at {compared.length}", "under 1/2 from", "halved from")
    for name in ("base", "K", "margin", "rival at", *masses):
        table.add_column(name, justify="right")
    for entry in compared.entries:
        for index, target in enumerate(entry.targets):
            names = _names(entry) if index == 0 else ("", "")
            table.add_row(*names, *_target(entry, target))
    return table


def _target(entry: KernelEntry, target: TargetDilution) -> tuple[str, ...]:
    star = "*" if entry.changes else "-"
    never = star if entry.changes else "never"
    half = never if target.half_length is None else str(target.half_length)
    halved = never if target.trained_mass is not None else star
    return (
        str(target.offset),
        f"{entry.logit_scale * target.margin:.3f}",
        f"±{target.rival_at}",
        star if target.trained_mass is None else f"{target.trained_mass:.4f}",
        f"{target.mass:.4f}",
        "start" if target.half_length == target.offset + 1 else half,
        halved if target.dilution_length is None else str(target.dilution_length),
    )


def _names(entry: KernelEntry) -> tuple[str, str]:
    base = entry.encoding.base
    return entry.title, f"{base:.0f}" if base == int(base) and base < 1e12 else f"{base:g}"


def _place(value: float | None, at: int | None) -> tuple[str, str]:
    return ("-", "-") if value is None else (f"{value:.4f}", str(at))
