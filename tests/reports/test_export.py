from __future__ import annotations

import csv
import io
import json
import math
import re
from html import unescape
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reports import export, markdown
from reports.text import plain
from results.run import load
from results.schema import Outcome
from tests.reports import runs
from tests.results import builders, h200

if TYPE_CHECKING:
    from pathlib import Path

    from results.run import Run

HOSTILE = "a|b `c` <script>alert(1)</script> [x](https://y) @name #12 *bold* \\| _em_ $x$\nnext"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def shown(escaped: str) -> str:
    """What a reader sees of escaped Markdown: comments vanish, entities are decoded."""
    return unescape(escaped.replace("<!-- -->", ""))


def test_csv_has_a_row_per_case_under_the_frame_s_names() -> None:
    of = runs.every_outcome()
    rows = list(csv.DictReader(io.StringIO(export.to_csv(of))))
    assert list(rows[0]) == list(of.frame().columns)
    assert len(rows) == len(of.records())
    (fused,) = (row for row in rows if row["variant"] == "fused")
    assert float(fused["isolated_s"]) == pytest.approx(191.382e-6, rel=1e-5)
    (absent,) = (row for row in rows if row["variant"] == "is_unavailable")
    assert absent["isolated_s"] == ""


CONTROLS = "\x1b[31mred\x1b[0m\rover\nnext\x00 \u202egnp"


def test_csv_keeps_every_text_on_its_line_and_shows_control_characters_as_escapes() -> None:
    of = runs.run([runs.failed("fused", Outcome.CRASHED, CONTROLS), *runs.gpu_trials({"per_head": 1e-4})])
    written = export.to_csv(of)
    assert all(character.isprintable() or character == "\n" for character in written)
    assert written.count("\n") == 3
    (row, _) = csv.DictReader(io.StringIO(written))
    assert row["reason"] == r"\x1b[31mred\x1b[0m\rover\nnext\x00 \u202egnp"


def test_a_stored_run_with_broken_unicode_can_be_exported_everywhere(tmp_path: Path) -> None:
    of = runs.run(
        [runs.failed("fu\ud800sed", Outcome.CRASHED, "half \udc80"), *runs.gpu_trials({"sdpa": 1e-4})]
    )
    path = builders.stored(tmp_path, of.manifest, of.trials)
    for name, write in export.WRITERS.items():
        assert write(load(path)).encode(), name
    assert r"fu\ud800sed" in export.to_csv(load(path))


def test_json_holds_the_manifest_and_every_record() -> None:
    of = runs.every_outcome()
    data = json.loads(export.to_json(of))
    assert list(data) == ["manifest", "ceilings", "records"]
    assert data["manifest"]["run_id"] == of.manifest.run_id
    assert len(data["records"]) == len(of.records())
    assert data["records"][1]["outcome"] == "ok"
    assert data["records"][1]["estimates"]["isolated"]["value_s"] == pytest.approx(191.382e-6, rel=1e-5)
    assert data["records"][-1]["outcome"] is None


def test_json_tells_tensor_core_use_with_its_reasons_and_the_ceilings() -> None:
    of = h200.run([("sdpa_cudnn", 72)], h200.without("gpm"))
    data = json.loads(export.to_json(of))
    (record,) = data["records"]
    assert record["tensor_use"]["issued_ratio"] == pytest.approx(128 / 72)
    assert record["tensor_use"]["missing"] == {}
    assert record["counters"]["kernels"][0]["registers"] == 168
    assert data["ceilings"]["matmuls"]["bf16"]["sustained_clock_mhz"] == 1440.0
    of.ceilings = None
    (record,) = json.loads(export.to_json(of))["records"]
    assert record["tensor_use"]["missing"]["burst_fraction"] == "this run measured no ceilings of its GPU"


def test_json_is_strict_where_a_number_is_not_one() -> None:
    of = runs.gpu_run(settings={"budget_s": 1.0, "odd": math.nan, "odder": math.inf})

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    data = json.loads(export.to_json(of), parse_constant=refuse)
    assert data["manifest"]["settings"] == {"budget_s": 1.0, "odd": None, "odder": None}


@pytest.mark.parametrize("of", [runs.gpu_run(), runs.cpu_run(), runs.every_outcome(), runs.run([])])
def test_every_markdown_table_is_rectangular(of: Run) -> None:
    blocks = [block for block in export.to_markdown(of).split("\n\n") if block.startswith("|")]
    assert blocks
    for block in blocks:
        head, rule, *body = block.splitlines()
        assert set(cells(rule)) <= {":--", "--:"}
        assert body
        assert {len(cells(line)) for line in (head, rule, *body)} == {len(cells(head))}


def test_markdown_shows_the_terminal_s_tables() -> None:
    text = export.to_markdown(runs.gpu_run())
    assert "### qkv forward · batch 32 · seq_len 1024 · d_model 768 = 12×64 · causal · bf16" in text
    assert (
        "| ▸ fused | 191.4 µs | 0.5 % | 383 µs | 172 µs | 606 | 61 % | 61 % | 3.44 | 6.00 MiB | 97 % |"
        in text
    )
    assert "| attention | 32 | sdpa_cudnn | 156.7 µs | 0.5 % | 12.3 | level with | sdpa |" in text


def test_markdown_says_of_a_case_without_times_how_it_ended_and_why() -> None:
    text = export.to_markdown(runs.every_outcome())
    assert re.search(r"^\| is_crashed \| crashed \|( +\|)+$", text, re.MULTILINE)
    assert "- crashed – is_crashed: why: crashed" in text
    assert "**FAILED: 3 cases**" in text
    assert "run --resume results/runs/" in text


def test_hostile_names_reasons_and_notes_stay_text_in_markdown() -> None:
    trials = [builders.trial(builders.case(HOSTILE)), runs.failed("bad", Outcome.CRASHED, HOSTILE)]
    text = export.to_markdown(runs.run(trials, notes=[HOSTILE]))
    for active in ("a|b", "`", "<script", "](", "https://", "@name", " #12", "*bold*", " _em_", "$x$", "\\"):
        assert active not in text
    assert shown(text).count(HOSTILE.replace("\n", " ")) >= 4
    table = next(block for block in text.split("\n\n") if block.startswith("|"))
    assert len({len(cells(line)) for line in table.splitlines()}) == 1


@given(st.text())
def test_escaped_text_reads_as_it_was_and_holds_nothing_active(foreign: str) -> None:
    escaped = markdown.escape(foreign)
    assert shown(escaped) == plain(foreign)
    assert not re.search(r"[@#](?!<!-- -->|\d+;)", escaped)
    assert not re.search(r"[\\`*\[\]|$<\n]", escaped.replace("<!-- -->", ""))
    assert not re.search(r"(?<=\S)~|~(?=\D|$)", escaped)


markup = st.text(st.sampled_from("\\`*[]()<>&|~$!{}_@#:/-+=.1a \n")) | st.text()


@given(markup)
def test_a_markdown_parser_finds_only_text_in_escaped_text(foreign: str) -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    table = f"| title {markdown.escape(foreign)} |\n| :-- |\n| {markdown.escape(foreign)} |"
    bullet = f"- **label** {markdown.escape(foreign)}"
    for source, blocks in ((table, 1 + 1), (bullet, 1)):
        tokens = [token for token in parser.parse(source) if token.type == "inline"]
        assert len(tokens) == blocks
        for token in tokens:
            found = [
                child for child in token.children or () if child.type not in ("strong_open", "strong_close")
            ]
            assert {child.type for child in found} <= {"text", "html_inline", "text_special"}
            text = "".join(child.content for child in found if child.type != "html_inline")
            assert text.removeprefix("title").removeprefix("label").strip() == plain(foreign)


def test_intervals_and_unsure_ratios_stay_readable_in_the_source() -> None:
    for text in (">100 %", "~1.31", "~3.26 × over", "989 TFLOP/s at 1830 MHz (datasheet)", "what?!"):
        assert markdown.escape(text) == text
    assert markdown.escape("~~struck~~ a~1~") == "&#126;&#126;struck&#126;&#126; a&#126;1&#126;"


def test_names_with_underscores_stay_readable_in_the_source() -> None:
    assert markdown.escape("per_head_loop") == "per_head_loop"
    assert markdown.escape("_x_") == "&#95;x&#95;"
