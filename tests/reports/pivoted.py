"""Runs to be pivoted by head_dim, and what a terminal shows of them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from reports import pivot, pivot_terminal, terminal
from tests.reports import runs, sweeps
from tests.results import h200

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports.pivot_cells import Cells
    from results.run import Run

HOSTILE = "[red]x[/]\x1b[31m\n| `y` <script>"
MANY = (
    "sdpa_cudnn",
    "sdpa_flash",
    "sdpa_efficient",
    "materialized",
    "per_head_loop",
    "flex",
)
RUNS: dict[str, Callable[[], Run]] = {
    "recorded": h200.run,
    "fine": lambda: sweeps.sweep(range(16, 257, 8), MANY),
    "hostile": lambda: sweeps.sweep(
        (32, 72), (HOSTILE, "头" * 20, "a_variant_whose_name_" + "goes_on_" * 12)
    ),
    "every outcome": runs.every_outcome,
    "on a CPU": runs.cpu_run,
    "nothing watched": lambda: h200.run(observed=h200.without("counters", "gpm", "utilisation")),
    "empty": lambda: runs.run([]),
}


def rendered(of: Run, cells: Cells, width: int = 100, by: str = "head_dim") -> str:
    """The pivoted run, with these figures in its cells."""
    out = io.StringIO()
    pivot_terminal.render(pivot.from_run(of, by, cells), terminal.new_console(out, width))
    return out.getvalue()
