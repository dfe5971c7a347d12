"""A time that is not ranked is shown with no more certainty than it has."""

from __future__ import annotations

import io
import re

import results
from reports.content import from_run
from reports.terminal import new_console, render
from results.ranking import WIDEST_SURE


def test_wide_eager_times_are_marked_in_their_cells_and_counted_in_the_header():
    run = results.read("nvidia-h200/kernels_1024")
    frame = run.frame()
    wide = frame[(frame.eager_high_s - frame.eager_low_s) / 2 / frame.eager_s > WIDEST_SURE]
    assert 0 < len(wide) < len(frame)

    out = io.StringIO()
    render(from_run(run), new_console(out, width=100))
    text = out.getvalue()

    assert f"{len(wide)} of {len(frame)} eager times beyond ± 25 %" in " ".join(text.split())
    assert len(re.findall(r"^.*%  *~[\d.]+ [µm]s", text, flags=re.MULTILINE)) == len(wide)
