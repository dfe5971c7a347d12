from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Tree

import pandas as pd
import pytest

from harness.errors import HeadbenchError, UsageError
from harness.pivot_output import Pivoting
from harness.report_command import show
from tests.results import builders, sessions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> str:
    return str(builders.stored(tmp_path))


@pytest.fixture
def session(tmp_path: Path) -> str:
    """An ab session whose head is 10 % slower in `fused`."""
    for side, fused_s in (("base", 1e-4), ("head", 1.1e-4)):
        of = builders.manifest(run_id=side, replicates=5)
        builders.stored(tmp_path / "session-ab", of, builders.trials(of, {"fused": fused_s}))
    return str(tmp_path / "session-ab")


def exported(where: str, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    show(where, [form])
    return capsys.readouterr().out


def test_a_run_goes_to_every_format_that_is_offered(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(json.loads(exported(run, "pytest-benchmark", capsys))["benchmarks"]) == 3 * 3
    assert len(json.loads(exported(run, "github-action-benchmark", capsys))) == 3
    assert Tree.fromstring(exported(run, "junit", capsys)).get("tests") == "3"
    assert exported(run, "csv", capsys).startswith("stage,variant,")
    assert "| fused" in exported(run, "markdown", capsys)
    assert len(json.loads(exported(run, "json", capsys))["records"]) == 3


def test_parquet_goes_into_the_file_that_is_named(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(run, [], tmp_path / "run.parquet")
    assert list(pd.read_parquet(tmp_path / "run.parquet")["variant"]) == ["per_head", "fused", "fused_qkv"]
    assert capsys.readouterr().out == ""


def test_without_pyarrow_one_line_says_how_to_install_it(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"--parquet needs pyarrow: pip install pyarrow"):
        show(run, [], tmp_path / "run.parquet")


def test_a_file_that_cannot_be_written_is_named(run: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--parquet .*nowhere/run.parquet cannot be written: "):
        show(run, [], tmp_path / "nowhere" / "run.parquet")


def test_two_formats_are_refused(run: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--junit and --csv exclude each other"):
        show(run, ["junit", "csv"])
    with pytest.raises(UsageError, match="--csv and --parquet exclude each other"):
        show(run, ["csv"], tmp_path / "run.parquet")


def test_a_session_s_verdicts_are_shown_again_in_every_form_they_have(
    session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(session, [])
    assert "fused" in capsys.readouterr().out
    assert "<details>" in exported(session, "markdown", capsys)
    rows = {
        (row["case"]["variant"], row["mode"]): row
        for row in json.loads(exported(session, "json", capsys))["rows"]
    }
    assert rows["fused", "isolated"]["ratio"] == pytest.approx(1.1)
    assert exported(session, "csv", capsys).startswith("stage,variant,")
    assert Tree.fromstring(exported(session, "junit", capsys)).get("tests")


def test_a_self_check_tells_again_what_its_machine_can_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = sessions.session({builders.case(): sessions.STEADY}, settings={"ab": {"self_check": True}})
    where = str(sessions.stored(tmp_path, of))
    show(where, [])
    assert "self-check: identical code called different in 0 of 2 comparisons" in capsys.readouterr().out
    assert "self-check" not in exported(where, "csv", capsys)


@pytest.mark.parametrize("form", ["pytest-benchmark", "github-action-benchmark"])
def test_what_only_a_run_has_is_refused_for_a_session(session: str, form: str) -> None:
    with pytest.raises(UsageError, match=f"--{form} is a run's"):
        show(session, [form])


def test_a_session_has_no_parquet(session: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--parquet is a run's"):
        show(session, [], tmp_path / "run.parquet")


@pytest.mark.parametrize("form", ["pytest-benchmark", "github-action-benchmark", "markdown"])
def test_a_manifest_that_somebody_edited_ends_in_one_line(tmp_path: Path, form: str) -> None:
    path = builders.stored(tmp_path)
    data = json.loads((path / "manifest.json").read_text())
    data["environment"] = {"gpu": "none", "cpu": 3, "git": [], "torch": 1, "peaks": 2}
    (path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(HeadbenchError, match="its manifest may be damaged"):
        show(str(path), [form])


def test_a_side_of_a_session_is_a_run(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(json.loads(exported(f"{session}/head", "github-action-benchmark", capsys))) == 3


def pivoted(run: str, capsys: pytest.CaptureFixture[str], *formats: str, peak: str | None = None) -> str:
    show(run, list(formats), pivoting=Pivoting("batch", peak=peak))
    return capsys.readouterr().out


def test_a_run_is_pivoted_on_the_terminal_and_as_markdown(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = pivoted(run, capsys)
    assert "each cell: useful % / active % / issued ×" in shown
    assert "÷ the datasheet's peak" in shown
    assert "fused_qkv" in shown
    assert "| variant | batch 1 |" in pivoted(run, capsys, "markdown")


def test_useful_rates_go_against_the_peak_that_is_asked_for(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = pivoted(run, capsys, peak="burst")
    assert "a large matmul's burst on this GPU" in " ".join(shown.split())
    assert "this run measured no ceilings of its GPU" in " ".join(shown.split())


def test_times_stand_in_the_cells_where_they_are_asked_for(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for formats, title in (([], "variant"), (["markdown"], "| variant | batch 1 |")):
        show(run, formats, pivoting=Pivoting("batch", "time"))
        shown = capsys.readouterr().out
        assert title in shown
        assert "each cell: the time of a call ± %" in shown
        assert "useful" not in shown


def test_a_format_that_has_a_row_per_case_needs_no_pivot(run: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--by mask goes to .*--csv has a row per case, its causal with it"):
        show(run, ["csv"], pivoting=Pivoting("mask"))
    with pytest.raises(
        UsageError, match=r"--by batch goes to .*--parquet has a row per case, its batch with it"
    ):
        show(run, [], tmp_path / "x.parquet", pivoting=Pivoting("batch"))
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Pivoting("head_dims"), "--by 'head_dims' is unknown: did you mean head_dim or n_head?"),
        (
            Pivoting("zzz"),
            "--by 'zzz' is unknown: head_dim, n_head, d_model, n_layer, batch, seq_len, mask, dtype are known",
        ),
        (Pivoting(""), "--by '' is unknown: "),
        (Pivoting("batch", peak="boost"), "--peak 'boost' is unknown: "),
        (Pivoting("batch", peak=""), "--peak '' is unknown: datasheet, held, burst, sustained are known"),
        (Pivoting(peak="burst"), "--peak 'burst' says what --by holds useful rates against: give --by, too"),
        (Pivoting("batch", "times"), "--show 'times' is unknown: did you mean time?"),
        (Pivoting("batch", ""), "--show '' is unknown: use, time are known"),
        (Pivoting(show="time"), "--show 'time' says what --by shows: give --by, too"),
        (
            Pivoting("batch", "time", "burst"),
            "--peak burst is for useful rates: --show time has none, leave one out",
        ),
    ],
)
def test_what_a_run_cannot_be_turned_by_is_refused(run: str, asked: Pivoting, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        show(run, [], pivoting=asked)
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 2


def test_a_session_is_not_turned_but_its_sides_are(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--by batch is a run's, not a session's: name its base or its head"):
        show(session, [], pivoting=Pivoting("batch"))
    show(f"{session}/head", [], pivoting=Pivoting("batch"))
    assert "fused" in capsys.readouterr().out


def test_an_edited_manifest_that_cannot_be_turned_ends_in_one_line(tmp_path: Path) -> None:
    path = builders.stored(tmp_path)
    data = json.loads((path / "manifest.json").read_text())
    data["environment"] = {"gpu": "none", "cpu": 3, "git": [], "torch": 1, "peaks": 2}
    (path / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(HeadbenchError, match="its manifest may be damaged"):
        show(str(path), [], pivoting=Pivoting("batch"))
