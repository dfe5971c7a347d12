from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from reports import content, terminal
from results.schema import Outcome
from tests.reports import runs
from tests.results import builders

if TYPE_CHECKING:
    from collections.abc import Callable

    from results.run import Run

WIDTHS = (80, 100)
HOSTILE = "[red]x[/]\x1b[31m\n| `y` <script>"
LONG_NAME = "a_variant_whose_name_" + "goes_on_and_" * 8 + "ends"
LONG_REASON = "it failed because " + "of one thing after another " * 60


def hostile_run() -> Run:
    trials = [
        *runs.gpu_trials({"per_head": 4e-4, HOSTILE: 2e-4, LONG_NAME: 1e-4, "头" * 20: 3e-4}),
        runs.failed("[bold]fails[/bold]", Outcome.CRASHED, LONG_REASON),
        runs.failed("fails_too", Outcome.UNSUPPORTED, HOSTILE),
    ]
    return runs.run(trials, notes=[HOSTILE])


def narrow(of: Run) -> Run:
    of.path = Path("run")
    return of


RUNS: dict[str, Callable[[], Run]] = {
    "gpu": runs.gpu_run,
    "cpu": runs.cpu_run,
    "one replicate": lambda: runs.cpu_run(1),
    "every outcome": runs.every_outcome,
    "hostile": hostile_run,
    "empty": lambda: runs.run([]),
}


def table(text: str, title: str) -> list[str]:
    """The lines below the title that begins with these words, up to the next blank line."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(title))
    return lines[start + 1 : lines.index("", start)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RUNS)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = runs.rendered(narrow(RUNS[name]()), width).splitlines()
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("name", RUNS)
def test_a_piped_report_has_no_control_codes_and_no_trailing_blanks(name: str) -> None:
    text = runs.rendered(RUNS[name]())
    assert all(line.isprintable() for line in text.split("\n"))
    assert not re.search(r" $", text, re.MULTILINE)


def test_piped_output_is_100_columns_wide_unless_columns_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal.new_console(io.StringIO()).width == 100
    monkeypatch.setenv("COLUMNS", "87")
    assert terminal.new_console(io.StringIO()).width == 87


@pytest.mark.parametrize("columns", ["", "0", "00", "-3", "many", "80 "])
def test_a_width_that_is_none_hides_nothing(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.new_console(io.StringIO()).width >= 80


def test_a_gpu_group_reads_as_a_table_ranked_by_isolated_time() -> None:
    rows = table(runs.rendered(runs.gpu_run()), "qkv forward · batch 32")
    titles, first, _, last = (re.split(r"  +", row.strip()) for row in rows)
    assert titles == [
        "variant",
        "isolated",
        "±",
        "eager",
        "graph",
        "TFLOP/s",
        "peak",
        "held",
        "× base",
        "memory",
        "busy",
    ]
    assert first == [
        "▸ fused",
        "191.4 µs",
        "0.5 %",
        "383 µs",
        "172 µs",
        "606",
        "61 %",
        "61 %",
        "3.44",
        "6.00 MiB",
        "97 %",
    ]
    assert last == [
        "per_head",
        "658.3 µs",
        "0.5 %",
        "1320 µs",
        "592 µs",
        "176",
        "18 %",
        "18 %",
        "base",
        "6.00 MiB",
        "97 %",
    ]


def test_columns_stand_under_each_other_in_all_tables() -> None:
    text = runs.rendered(runs.gpu_run())
    titles = [line for line in text.splitlines() if line.startswith("  variant")]
    assert len(titles) == 3
    assert len(set(titles)) == 1


def test_a_variant_level_with_the_fastest_is_marked() -> None:
    rows = table(runs.rendered(runs.gpu_run()), "attention forward")
    assert [row[:6] for row in rows[1:4]] == ["▸ sdpa", "≈ sdpa", "  sdpa"]


def test_the_winners_are_summed_up_with_their_lead() -> None:
    rows = table(runs.rendered(runs.gpu_run()), "fastest of each group")
    assert rows[0].split() == ["stage", "batch", "fastest", "isolated", "±", "×", "base", "lead", "runner-up"]
    assert rows[1].endswith("  3.1 % over  fused_qkv")
    assert rows[3].endswith("  level with  sdpa")


def test_eighty_columns_leave_out_what_is_needed_least_and_say_so() -> None:
    text = runs.rendered(runs.gpu_run(), 80)
    assert "left out in 80 columns: busy" in text
    assert "busy" not in table(text, "qkv forward")[0]
    assert "left out" not in runs.rendered(runs.gpu_run(), 100)


def test_a_cpu_run_says_so_first_and_shows_only_what_a_cpu_has() -> None:
    text = runs.rendered(runs.cpu_run())
    assert text.startswith("! no CUDA device: measuring the CPU\n")
    assert table(text, "qkv forward")[0].split() == ["variant", "eager", "±", "GFLOP/s", "×", "base"]
    assert "           no share of peak: no fp32 peak is known for this device\n" in text
    assert text.count("not counted on a CPU") == 1


def test_the_run_s_own_notices_come_before_everything_else() -> None:
    environment = {**runs.CPU_ENVIRONMENT, "notices": ["GPU X is unusable: measuring the CPU meanwhile"]}
    text = runs.rendered(runs.cpu_run(environment=environment))
    assert text.startswith("! GPU X is unusable: measuring the CPU meanwhile\nmachine ")


def test_any_cuda_device_is_a_gpu_and_cudnn_s_number_is_read() -> None:
    torch = {"version": "2.11.0", "cuda": "13.0", "cudnn": 91900}
    text = runs.rendered(
        runs.gpu_run(environment={**runs.GPU_ENVIRONMENT, "device": "cuda:1", "torch": torch})
    )
    assert "machine    NVIDIA H200 · 132 SMs" in text
    assert "CUDA 13.0 · cuDNN 9.19.0 · driver 580.65.06" in text


def test_one_replicate_shows_no_interval_and_warns() -> None:
    text = runs.rendered(runs.cpu_run(1))
    assert "precision  1 replicate: no interval, so a difference may be chance" in text
    assert "±:" not in text
    assert "one replicate: no intervals, the order may be chance" in table(text, "fastest of each group")
    ratios = [row.split()[-1] for row in table(text, "qkv forward")[1:]]
    assert ratios == ["~3.44", "~3.34", "base"]
    assert "~3.44   ~3.1 % over  fused_qkv" in table(text, "fastest of each group")[1]


@pytest.mark.parametrize("environment", [{}, {"device": "cuda", "gpu": None, "torch": None, "peaks": None}])
def test_an_environment_that_says_nothing_still_renders(environment: dict[str, object]) -> None:
    text = runs.rendered(runs.gpu_run(environment=environment))
    assert "torch of unknown version" in text
    assert "no bf16 peak is known for this device" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_the_summary_breaks_no_built_in_name(width: int) -> None:
    trials = runs.gpu_trials({"concat_matmul": 1e-4, "nn_multihead_attention": 2e-4}, stage="sublayer")
    wide = runs.gpu_trials({"fused_sdpa": 1e-3, "per_head": 2e-3}, stage="sublayer", batch=32, n_head=24)
    rows = table(runs.rendered(runs.run([*trials, *wide]), width), "fastest of each group")
    assert len(rows) == 3
    assert rows[1].endswith("nn_multihead_attention")


def test_every_outcome_stands_in_its_row_with_its_reason_below() -> None:
    text = runs.rendered(runs.every_outcome())
    rows = table(text, "qkv forward")
    for outcome in (Outcome.UNAVAILABLE, Outcome.UNSUPPORTED):
        assert f"{outcome.value}: is_{outcome.value} in qkv: why: {outcome.value}\n" in text
        assert not any(outcome.value in row for row in rows)
    for outcome in list(Outcome)[1:5]:
        label = outcome.value.replace("_", " ")
        assert any(re.fullmatch(rf"  is_{outcome.value} +{label}", row) for row in rows)
        assert any(
            re.fullmatch(rf"    {label} +is_{outcome.value}: why: {outcome.value}", row) for row in rows
        )
    assert any(re.fullmatch(r"  is_not_measured +not measured", row) for row in rows)
    assert "flagged        uncaptured: released_by_timeout, in some samples" in text
    assert "no graph time  uncaptured: it synchronises, which a capture forbids" in text


def test_failures_are_said_loudly_at_the_end_and_only_failures() -> None:
    end = runs.rendered(runs.every_outcome()).split("FAILED: 3 cases\n")[1]
    assert [line.split(":")[0].strip() for line in end.splitlines()[:3]] == [
        "incorrect",
        "crashed",
        "timed out",
    ]
    assert "FAILED" not in runs.rendered(runs.gpu_run())


def test_a_fault_met_in_many_groups_is_one_line() -> None:
    crashes = [runs.failed("bad", Outcome.CRASHED, "signal 11", batch=batch) for batch in range(1, 6)]
    assert "\n  crashed: bad in 5 groups: signal 11\n" in runs.rendered(runs.run(crashes))


def test_a_path_with_blanks_is_quoted_and_never_broken() -> None:
    of = runs.gpu_run()
    of.path = Path("/a folder", "long" * 40)
    assert f"report '/a folder/{'long' * 40}'\n" in runs.rendered(of, 80)


def test_notes_about_damage_are_shown() -> None:
    assert "note  line 9 of trials.jsonl is cut off after 311 bytes" in runs.rendered(runs.every_outcome())


def test_markup_and_control_codes_in_names_and_reasons_are_shown_as_text() -> None:
    text = runs.rendered(hostile_run(), 200)
    assert "[red]x[/]\\x1b[31m | `y` <script>" in text
    assert "[bold]fails[/bold]" in text


def test_a_long_name_is_folded_whole_and_a_long_reason_cut() -> None:
    text = runs.rendered(hostile_run())
    lines = table(text, "qkv forward")
    width = next(line for line in lines if LONG_NAME[:10] in line).index(" 100.2 µs")
    pieces = [line[:width] for line in lines]
    assert LONG_NAME in "".join(piece.strip() for piece in pieces).replace("▸ ", "")
    assert "…" in text
    assert len(text.splitlines()) < 80


def test_colour_changes_nothing_but_colour() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system="standard", highlight=False)
    terminal.render(content.from_run(hostile_run()), console)
    assert "\x1b[" in out.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == runs.rendered(hostile_run())


def test_importing_the_terminal_report_imports_neither_pandas_nor_torch_nor_a_renderer() -> None:
    heavy = {"pandas", "torch", "scipy", "altair", "vl_convert"}
    code = f"import sys, reports.terminal; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_case_timed_alone_has_no_lead() -> None:
    rows = table(runs.rendered(runs.run([builders.trial()], replicates=1)), "fastest of each group")
    assert rows[0].split() == ["stage", "fastest", "isolated"]


def written(of: Run, encoding: str) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    terminal.render(content.from_run(of), terminal.new_console(stream))
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_stream_that_lacks_a_sign_gets_its_spelling_in_columns_that_stay() -> None:
    text = written(runs.gpu_run(), "ascii")
    assert "191.4 us" in text
    assert "?" not in text
    title, row = table(text, "qkv forward - batch 32 ")[:2]
    for name, cell in (("isolated", "191.4 us"), ("+-", "0.5 %"), ("x base", "3.44")):
        assert title.index(name) + len(name) == row.index(cell) + len(cell)


def test_a_stream_keeps_the_signs_that_it_has() -> None:
    assert "191.4 µs" in written(runs.gpu_run(), "latin-1")
    assert "> fused" in written(runs.gpu_run(), "latin-1")
    assert written(runs.gpu_run(), "utf-8") == runs.rendered(runs.gpu_run())


def test_a_letter_without_a_spelling_becomes_a_question_mark() -> None:
    assert "  gro? " in written(runs.run(runs.gpu_trials({"groß": 1e-4, "per_head": 1e-5})), "ascii")


def test_the_longest_built_in_names_fit_beside_every_column() -> None:
    times_s = {"per_head": 12.34e-3, "nn_multihead_attention": 3.86e-4, "fused_sdpa": 3.85e-4}
    text = runs.rendered(runs.run(runs.gpu_trials(times_s, stage="sublayer", batch=32)))
    rows = table(text, "sublayer forward")
    assert rows[0].split()[-1] == "busy"
    assert len(rows) == 4
    assert rows[2].startswith("≈ nn_multihead_attention ")
