"""A run pivoted on stdout: `report --by`, and what its cells are to show."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.damage import damage_told
from harness.errors import UsageError, shown, unknown
from results.tensor_use import DATASHEET, PEAKS

if TYPE_CHECKING:
    from reports.pivot_cells import Cells
    from results.run import Run


@dataclass(frozen=True, slots=True)
class Pivoting:
    """`--by`, `--show` and `--peak` as they were given: `reports.pivot.BY`, `reports.pivot_cells.SHOWN`, `PEAKS`."""

    by: str | None = None
    show: str | None = None
    peak: str | None = None

    def check(self, form: str | None) -> None:
        """Raises UsageError where one is unknown, or they do not go together with each other or with the format."""
        if self.by is None:
            self._refuse_without_by()
            return
        from reports.pivot import BY
        from reports.pivot_cells import SHOWN, TIME

        if self.by not in BY:
            raise unknown("--by", self.by, BY)
        if self.show is not None and self.show not in SHOWN:
            raise unknown("--show", self.show, SHOWN)
        if self.peak is not None and self.peak not in PEAKS:
            raise unknown("--peak", self.peak, PEAKS)
        if self.show == TIME and self.peak is not None:
            raise UsageError(f"--peak {self.peak} is for useful rates: --show {TIME} has none, leave one out")
        if form not in (None, "markdown"):
            column = "causal" if self.by == "mask" else self.by
            raise UsageError(
                f"--by {self.by} goes to the terminal or --markdown: --{form} has a row per case, its {column} with it"
            )

    def _refuse_without_by(self) -> None:
        if self.peak is not None:
            raise UsageError(
                f"--peak {shown(self.peak)} says what --by holds useful rates against: give --by, too"
            )
        if self.show is not None:
            raise UsageError(f"--show {shown(self.show)} says what --by shows: give --by, too")

    def cells(self) -> Cells:
        """The figures of each cell."""
        from reports.pivot_cells import TIME, Times, Use

        return Times() if self.show == TIME else Use(self.peak or DATASHEET)


def print_pivot(run: Run, asked: Pivoting, form: str | None) -> None:
    """Print the run pivoted as asked, which was checked, as wide as the terminal or as Markdown.

    Raises:
        HeadbenchError: what is stored cannot be shown.
    """
    from reports import pivot, pivot_markdown, pivot_terminal
    from reports.terminal import new_console

    assert asked.by, "it was checked"
    with damage_told(run):
        pivoted = pivot.from_run(run, asked.by, asked.cells())
        if form:
            sys.stdout.write(pivot_markdown.to_markdown(pivoted))
        else:
            pivot_terminal.render(pivoted, new_console())
