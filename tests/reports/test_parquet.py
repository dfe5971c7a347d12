from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from reports.export import to_parquet
from results.frame import RECORD_COLUMNS
from results.run import load
from results.schema import Outcome
from tests.reports import runs
from tests.results import builders

if TYPE_CHECKING:
    from pathlib import Path

parquet = pytest.importorskip("pyarrow.parquet")


def test_the_frame_comes_back_as_it_was(tmp_path: Path) -> None:
    of = runs.every_outcome()
    to_parquet(of, tmp_path / "run.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run.parquet"), of.frame(), check_dtype=False)


def test_another_reader_finds_the_columns_and_missing_values_as_nulls(tmp_path: Path) -> None:
    to_parquet(runs.every_outcome(), tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table.column_names == list(RECORD_COLUMNS)
    assert str(table.schema.field("batch").type) == "int64"
    assert str(table.schema.field("isolated_s").type) == "double"
    by_variant = dict(zip(table["variant"].to_pylist(), table["isolated_s"].to_pylist(), strict=True))
    assert by_variant["is_crashed"] is None
    assert by_variant["fused"] > 0


def test_a_file_that_is_there_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    to_parquet(runs.gpu_run(), path)
    to_parquet(runs.cpu_run(), path)
    assert set(pd.read_parquet(path)["dtype"]) == {"fp32"}


def test_a_stored_run_with_broken_unicode_is_written(tmp_path: Path) -> None:
    of = runs.run([runs.failed("fused", Outcome.CRASHED, "half \udc80"), *runs.gpu_trials({"sdpa": 1e-4})])
    to_parquet(load(builders.stored(tmp_path, of.manifest, of.trials)), tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table["reason"].to_pylist()[0] == r"half \udc80"
