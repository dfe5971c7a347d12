"""The README keeps its promises: its commands parse, its plugin is right, its table is the recorded run's."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import results
from harness import __main__ as entry
from results.schema import Outcome

from .harness.commands import headbench, only_run, tiny_run

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    python -m harness (run .*?)(?:\s+#.*)?$", README, flags=re.MULTILINE)
REFERENCE = "nvidia-h200/default"


def code_block(containing: str) -> str:
    blocks = re.findall(r"```(?:python|cuda)\n(.*?)```", README, flags=re.DOTALL)
    (block,) = [b for b in blocks if containing in b]
    return block


@pytest.mark.parametrize("command", [c for c in COMMANDS if "--resume" not in c and "--plugin" not in c])
def test_every_run_command_is_accepted(command, monkeypatch):
    accepted = []
    for name in ("start", "dry_run"):
        monkeypatch.setattr(f"harness.run_command.{name}", lambda options: accepted.append(options) or 0)
    monkeypatch.setattr(sys, "argv", ["headbench", *shlex.split(command)])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 0
    assert len(accepted) == 1


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
        ("head_dim", ["report", "nvidia-h200/head_dim", "--by", "head_dim"]),
    ],
)
def test_each_table_is_a_recorded_runs(table, command):
    shown = README.partition(f"<!-- {table}: begin -->")[2].partition(f"<!-- {table}: end -->")[0]
    lines = [line.strip() for line in shown.splitlines() if line.strip() and "```" not in line]
    assert len(lines) > 10
    recorded = {line.strip() for line in headbench(*command).stdout.splitlines()}
    assert [line for line in lines if line not in recorded] == []


def test_the_ratios_of_our_kernels_are_a_recorded_runs(capsys):
    shown = README.partition("<!-- kernels: begin -->")[2].partition("<!-- kernels: end -->")[0]
    source, printed = re.fullmatch(
        r"\s*```python\n(.*?)```\s*```\n(.*?)```\s*", shown, flags=re.DOTALL
    ).groups()
    exec(source, {})
    assert capsys.readouterr().out == printed


def test_the_pandas_example_runs():
    run = results.read(REFERENCE)
    assert len(run.frame()) == len(run.manifest.cases)
    assert len(run.samples()) > len(run.manifest.cases)
