"""What a user meets: options by their names, a report like the run that it is of, and output wherever it goes."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from harness import __main__ as entry

from .commands import PLUGINS, command, environment, headbench, only_run, tiny_run

SELECTORS = (
    "--all --stage --variant --model --head-dim --n-head --d-model --n-layer --batch --seq-len --mask --dtype "
    "--direction --device"
)
MEASURING = f"{SELECTORS} --budget --silence --seed --plugin --out --dry-run --help"


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("run", f"{MEASURING} --quick --replicates --counters --resume"),
        ("ab", f"{MEASURING} --base-python --head-python --guard --only --self-check"),
        ("compare", "--across --csv --json --markdown --junit --html --help"),
        ("doctor", "--device --kernels --help"),
        (
            "report",
            "--csv --json --markdown --junit --pytest-benchmark --github-action-benchmark --parquet --html --svg --by "
            "--show --peak --across --help",
        ),
    ],
)
def test_every_option_has_the_name_the_readme_gives_it(capsys, monkeypatch, command, options):
    monkeypatch.setattr(sys, "argv", ["headbench", command, "--help"])
    with pytest.raises(SystemExit):
        entry.main()
    shown = set(re.findall(r"^  (--[A-Za-z-]+)", capsys.readouterr().out, flags=re.MULTILINE))
    assert shown == set(options.split())


def test_report_shows_exactly_what_the_run_showed_and_exports_parse(tmp_path):
    done = tiny_run(tmp_path, "--stage", "qkv", "--plugin", PLUGINS / "hostile.py", "--replicates", 2)
    assert done.returncode == 0, done.stderr
    path = only_run(tmp_path)
    shown = headbench("report", path)
    assert shown.stdout.strip() in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines() if str(path) not in line)
    data = json.loads(headbench("report", path, "--json").stdout)
    variants = {record["case"]["variant"] for record in data["records"]}
    assert variants == {"per_head", "fused", "fused_qkv"}
    rows = headbench("report", path, "--csv").stdout.splitlines()
    assert len(rows) == 1 + 3
    assert "| fused_qkv" in headbench("report", path, "--markdown").stdout.replace("▸ ", "").replace("≈ ", "")


def test_one_replicate_says_that_it_has_no_interval(tmp_path):
    done = tiny_run(tmp_path, "--stage", "output", "--replicates", 1)
    assert done.returncode == 0
    assert "1 replicate" in done.stdout
    assert "no interval" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("report nvidia-h200/default", 0),
        ("report nvidia-h200/default --json", 0),
        ("compare nvidia-h200/default nvidia-h200/default", 0),
        ("list --device cpu", 0),
        ("--help", 0),
        ("report /nowhere 2>&1", 2),
    ],
)
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_output_cut_off_by_its_reader_ends_quietly_with_the_code_it_would_have_had(arguments, code, reader):
    shell = f"{sys.executable} -m harness {arguments} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == code
    assert done.stderr == ""


def test_a_default_that_a_help_text_names_is_the_one_that_is_used(monkeypatch, capsys):
    from results.paired import GUARDED
    from results.store import RUNS

    monkeypatch.setattr(sys, "argv", ["headbench", "ab", "--help"])
    with pytest.raises(SystemExit):
        entry.main()
    told = " ".join(capsys.readouterr().out.split())
    assert f"[default: {','.join(GUARDED)}]" in told
    assert f"[default: {RUNS}]" in told


@pytest.mark.parametrize("arguments", [("--help",), ("list", "--device", "cpu")])
def test_a_full_stdout_ends_in_one_line(arguments):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            command(*arguments),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left" in done.stderr


def test_an_ascii_terminal_is_served_with_question_marks():
    done = subprocess.run(
        command("run", "--all", "--device", "cpu", "--dry-run"), capture_output=True, text=True, check=False,
        env={**environment(), "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "heads 12?64" in done.stdout
