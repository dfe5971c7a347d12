"""README and docs keep their promises: commands parse, the plugin is right, tables and figures are a recorded run's."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

import results
from harness import __main__ as entry
from reports import units
from reports.claims import found
from reports.pivot import BY
from results.claims import CLAIMS, Evidence, judge
from results.claims.claim import Answer
from results.schema import Outcome
from variants.registry import discover

from .harness.commands import headbench, only_run, tiny_run

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
README, TEXT = PAGES["README.md"], "\n".join(PAGES.values())
COMMANDS = dict.fromkeys(re.findall(r"^    python -m harness (.*?)(?:\s+#.*)?$", TEXT, flags=re.MULTILINE))
QUESTIONS = re.findall(r"`(run --[^`]+)`", PAGES["docs/using.md"])
"""The commands of the table that says which one answers which question."""
RUNS = [command for command in (*COMMANDS, *QUESTIONS) if command.startswith("run ")]
RECORDED = [command for command in COMMANDS if " nvidia-h200" in command]
REFERENCE = "nvidia-h200/default"


def code_block(containing: str) -> str:
    blocks = re.findall(r"```(?:python|cuda)\n(.*?)```", TEXT, flags=re.DOTALL)
    (block,) = [b for b in blocks if containing in b]
    return block


def marked(name: str) -> str:
    """What stands between the two comments that bear this name."""
    (found,) = re.findall(f"<!-- {name}: begin -->(.*?)<!-- {name}: end -->", TEXT, flags=re.DOTALL)
    return found


@pytest.mark.parametrize("command", [c for c in RUNS if "--resume" not in c and "--plugin" not in c])
def test_every_run_command_is_accepted(command, monkeypatch):
    accepted = []
    for name in ("start", "dry_run"):
        monkeypatch.setattr(f"harness.run_command.{name}", lambda options: accepted.append(options) or 0)
    monkeypatch.setattr(sys, "argv", ["headbench", *shlex.split(command)])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 0
    assert len(accepted) == 1


def test_every_question_has_one_command_and_a_property_that_a_run_can_be_pivoted_by():
    assert len(QUESTIONS) >= 9
    named = re.findall(r"`--by (\w+)`", PAGES["docs/using.md"])
    assert len(named) >= 6
    assert set(named) <= set(BY)
    told = re.search(r"`--by` takes (.*?),\s+and", PAGES["docs/tensor-cores.md"], flags=re.DOTALL)[1]
    assert re.findall(r"`(\w+)`", told) == list(BY)


def test_the_table_of_variants_has_all_but_twins_and_stars_what_a_run_leaves_out():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", PAGES["docs/using.md"], flags=re.MULTILINE)
    starred = {
        (stage, name): bool(star) for stage, cell in rows for name, star in re.findall(r"`(\w+)`(\*?)", cell)
    }
    for (stage, name), variant in discover().variants.items():
        if variant.arrives == "contiguous" or stage == "output":
            assert starred.get((stage, name)) is variant.aside, (stage, name)


def test_the_plugin_is_complete_short_and_right(tmp_path):
    source = code_block("class QueryBlocks")
    assert len(source.splitlines()) < 25
    plugin = tmp_path / "query_blocks.py"
    plugin.write_text(source)
    names = ("--variant", "query_blocks,materialized,sdpa", "--seq-len", "129", "--mask", "causal,full")
    done = tiny_run(tmp_path / "runs", "--plugin", plugin, *names, "--replicates", 1)
    assert done.returncode == 0, done.stdout
    run = results.read(only_run(tmp_path / "runs"))
    assert {record.case.variant for record in run.records()} == {"query_blocks", "materialized", "sdpa"}
    assert all(record.outcome is Outcome.OK for record in run.records())


@pytest.mark.parametrize(
    ("table", "command"),
    [
        ("table", ["report", REFERENCE]),
        ("sample", ["report", REFERENCE]),
        ("head_dim", ["report", "nvidia-h200/head_dim", "--by", "head_dim"]),
        ("heads", ["report", "nvidia-h200/heads_768", "--by", "n_head", "--show", "time"]),
    ],
)
def test_each_table_is_a_recorded_runs(table, command):
    shown = marked(table)
    lines = [line.strip() for line in shown.splitlines() if line.strip() and "```" not in line]
    assert len(lines) > 8
    recorded = {line.strip() for line in headbench(*command).stdout.splitlines()}
    assert [line for line in lines if line not in recorded] == []


def test_the_ratios_of_our_kernels_are_a_recorded_runs(capsys):
    shown = marked("kernels")
    source, printed = re.fullmatch(
        r"\s*```python\n(.*?)```\s*```\n(.*?)```\s*", shown, flags=re.DOTALL
    ).groups()
    exec(source, {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("command", RECORDED)
def test_what_can_be_looked_at_without_a_gpu_can_be(command, tmp_path):
    done = headbench(*shlex.split(command), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout or list(tmp_path.iterdir())


def test_the_answer_is_the_recorded_runs():
    frame = results.read(REFERENCE).frame()
    frame = (
        frame[(frame.d_model == 768) & (frame["mode"] == "isolated")]
        .set_index(["stage", "batch", "variant"])
        .sort_index()
    )
    rows = re.findall(
        r"^\| `(.*)` \| `(.*)` \| `(.*)` \| (.*) × \| (.*) × \|$", marked("answer"), flags=re.MULTILINE
    )
    assert [row[0] for row in rows] == ["qkv", "attention", "output", "sublayer"]
    for stage, base, fastest, *told in rows:
        for batch, speedup in zip((1, 32), told, strict=True):
            group = frame.loc[stage, batch]
            assert group.time_s.idxmin() == fastest
            assert speedup == units.significant(group.speedup[fastest], 3)
            assert group.isolated_high_s[fastest] < group.isolated_low_s[base]


def test_the_verdicts_and_their_numbers_are_the_recorded_runs():
    evidence = Evidence.of(results.read("nvidia-h200/claims"))
    rows = re.findall(
        r"^\| (C\d+) \| .* \| (.*) \| (\d+) of (\d+) \| (.*) \|$", marked("verdicts"), flags=re.MULTILINE
    )
    assert [row[0] for row in rows] == list(CLAIMS)
    for claim, verdict, holds, of, told in rows:
        finding = judge(CLAIMS[claim], evidence)
        answers = [part.answer for part in finding.parts]
        assert (verdict, int(holds), int(of)) == (
            finding.judgement,
            answers.count(Answer.HOLDS),
            len(answers),
        )
        recorded = " ".join(found(part, interval=False) for part in finding.parts)
        figures = re.findall(r"\d[\d.,]*(?: [×%])?", told)
        assert [figure for figure in figures if figure not in recorded] == []


def test_every_picture_says_in_words_what_it_shows():
    for alt, path in re.findall(r"!\[(.*?)\]\((.*?)\)", README):
        assert f"<title>{escape(alt)}</title>" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_leads_to_one(page):
    for target in re.findall(r"\]\((?!https?:)(.*?)\)", PAGES[page]):
        assert ((ROOT / page).parent / target).is_file(), target


def test_the_readme_is_short_enough_to_be_read():
    assert len(README) < 12_000


def test_the_pandas_example_runs():
    run = results.read(REFERENCE)
    assert len(run.frame()) == len(run.manifest.cases)
    assert len(run.samples()) > len(run.manifest.cases)
