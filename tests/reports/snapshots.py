"""Recorded runs as they are shown: each in a file of `tests/data/snapshots`, to be read when it changes.

python -m tests.reports.snapshots   writes them anew
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import results
from reports import content, pivot, pivot_markdown, pivot_terminal, run_markdown, terminal
from reports.pivot_cells import Use

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

FOLDER = Path(__file__).parents[1] / "data" / "snapshots"
ROOT = Path(__file__).parents[2]


def _written(render: Callable[[Console], None], width: int, encoding: str) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    render(terminal.new_console(stream, width))
    stream.flush()
    return raw.getvalue().decode(encoding)


def _report(name: str, width: int, encoding: str = "utf-8") -> str:
    report = content.from_run(results.read(name))
    return _written(lambda console: terminal.render(report, console), width, encoding)


def _pivot(name: str, width: int, encoding: str = "utf-8") -> str:
    pivoted = pivot.from_run(results.read(name), "head_dim", Use())
    return _written(lambda console: pivot_terminal.render(pivoted, console), width, encoding)


SNAPSHOTS: dict[str, Callable[[], str]] = {
    "default_100.txt": lambda: _report("nvidia-h200/default", 100),
    "default_80_ascii.txt": lambda: _report("nvidia-h200/default", 80, "ascii"),
    "kernels_1024_80.txt": lambda: _report("nvidia-h200/kernels_1024", 80),
    "head_dim_by_head_dim_80.txt": lambda: _pivot("nvidia-h200/head_dim", 80),
    "head_dim_by_head_dim_100_ascii.txt": lambda: _pivot("nvidia-h200/head_dim", 100, "ascii"),
    "head_dim.md": lambda: run_markdown.to_markdown(content.from_run(results.read("nvidia-h200/head_dim"))),
    "head_dim_by_head_dim.md": lambda: pivot_markdown.to_markdown(
        pivot.from_run(results.read("nvidia-h200/head_dim"), "head_dim", Use())
    ),
}
"""How each file is made."""


def shown(name: str) -> str:
    """What the code makes of it now, without where this checkout is."""
    return SNAPSHOTS[name]().replace(f"{ROOT}/", "")


if __name__ == "__main__":
    for each in SNAPSHOTS:
        (FOLDER / each).write_text(shown(each), encoding="utf-8")
