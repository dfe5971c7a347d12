"""`list`: what can be measured, and whether this machine has what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.errors import printable
from harness.plan import ASIDES
from harness.probe import look
from harness.request import CPU_DEFAULTS, GPU_DEFAULTS
from results.errors import StoreError
from results.run import load_manifest
from results.store import REFERENCE, reference_names
from variants.direction import FORWARD
from variants.presets import PRESETS
from variants.shape import Shape
from variants.stage import STAGES

if TYPE_CHECKING:
    from pathlib import Path

    from harness.plan import VariantFacts

ONE_MODEL = (
    f"by default {GPU_DEFAULTS.one_model} alone, on a CPU {CPU_DEFAULTS.one_model}; --model asks for others"
)
DEPTH = f"as deep as its model, at batch {GPU_DEFAULTS.batch[0]}; --n-layer and --batch ask for others"
ASIDE = "*"
"""What marks an aside."""


def show(device: str | None, plugins: tuple[Path, ...]) -> None:
    """Print stages with their variants, presets, and the runs that came with headbench."""
    environment, variants = look(device, plugins)
    console = Console(highlight=False) if Console().is_terminal else Console(highlight=False, width=100)
    for notice in environment["notices"]:
        console.print(Text(notice))
    for stage in STAGES.values():
        console.print()
        console.print(Text(f"{stage.name}: {stage.summary}", style="bold"))
        console.print(Text(f"arrives as {stage.arrives}; compared with {stage.baseline}"))
        if stage.one_model:
            console.print(Text(ONE_MODEL))
        if stage.deep:
            console.print(Text(DEPTH))
        own = [v for v in variants if v.stage == stage.name]
        if strided := [v.name for v in own if v.arrives == "strided"]:
            console.print(Text(f"{stage.strided}, for {', '.join(strided)}"))
        console.print(_variants(own))
        if any(v.aside for v in own):
            console.print(Text(f"{ASIDE} {ASIDES}"))
    console.print()
    console.print(Text("presets, with the weights of attention in all their layers", style="bold"))
    console.print(_presets())
    if names := reference_names():
        console.print(Text("recorded runs, for report and for --from of claims and explain", style="bold"))
        _print_recorded(names, console)


def _variants(variants: list[VariantFacts]) -> Table:
    table = _table("variant", "needs", "here", "directions", "hypothesis")
    for variant in variants:
        told = variant.hypothesis or f"cannot be loaded: {variant.missing}"
        name = f"{variant.name} {ASIDE}" if variant.aside else variant.name
        here = "no" if variant.missing else "yes"
        directions = FORWARD if variant.why_forward_alone else "all"
        table.add_row(*map(Text, (name, variant.needs, here, directions, told)))
    return table


def _presets() -> Table:
    table = _table(
        "model",
        "d_model",
        "n_head",
        "head_dim",
        "n_layer",
        "weights",
        "context",
        "where the figures come from",
    )
    for preset in PRESETS.values():
        sizes = (preset.d_model, preset.n_head, preset.head_dim, preset.n_layer)
        shape = Shape(1, preset.context, preset.d_model, preset.n_head, n_layer=preset.n_layer)
        weights = f"{STAGES['stack'].parameters(shape):,}"
        table.add_row(preset.name, *map(str, sizes), weights, str(preset.context), preset.source)
    return table


def _print_recorded(names: list[str], console: Console) -> None:
    """What each of these references can answer for, then which of them cannot be read."""
    table = _table("run", "stages", "directions", "d_model = heads", "batch", "seq_len")
    table.columns[0].no_wrap = True
    unread = []
    for name in names:
        try:
            cases = load_manifest(REFERENCE / name).cases
        except StoreError as error:
            unread.append(f"{name}: {error}")
            continue
        stages = dict.fromkeys(case.stage for case in cases)
        widths = sorted({(case.d_model, case.n_head, case.head_dim) for case in cases})
        held = (
            [*(one for one in STAGES if one in stages), *(one for one in stages if one not in STAGES)],
            dict.fromkeys(case.direction for case in cases),
            [f"{d_model}={n_head}×{head_dim}" for d_model, n_head, head_dim in widths],
            sorted({case.batch for case in cases}),
            sorted({case.seq_len for case in cases}),
        )
        table.add_row(Text(name), *(Text(printable(", ".join(map(str, values)))) for values in held))
    console.print(table)
    for told in unread:
        console.print(Text(printable(told)))


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
