"""Active and issued in the tables of an ordinary report."""

from __future__ import annotations

import re

from tests.reports import runs
from tests.reports.test_terminal import table
from tests.results import h200


def test_what_the_tensor_cores_did_stands_in_the_group_s_table_and_in_the_legend() -> None:
    text = runs.rendered(h200.run(), 120)
    lines = table(text, "attention forward · batch 32 · seq_len 1024 · d_model 864")
    title, *rows = [re.split(r" {2,}", line.strip()) for line in lines]
    told = {row[0].split()[-1]: dict(zip(title, row, strict=True)) for row in rows}
    assert [(told[name]["active"], told[name]["issued"]) for name in ("sdpa_cudnn", "sdpa_flash")] == [
        ("66 %", "1.78"),
        ("45 %", "1.33"),
    ]
    assert "active: share of cycles with a tensor pipe busy" in text
    assert "issued: FLOPs that the tensor cores executed" in text


def test_a_run_that_nobody_counted_has_neither_column_nor_legend_for_it() -> None:
    text = runs.rendered(runs.gpu_run(), 120)
    assert "issued" not in text
    assert "tensor" not in text
