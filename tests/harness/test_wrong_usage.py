"""Wrong usage: one clear line that names what would do, and exit 2, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commands import headbench, refused, tiny_run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("run", "list", "report", "ab", "compare", "doctor")),
        (("run",), ("--all", "--stage", "qkv", "andrea-120m")),
        (("rnu",), ("rnu", "run")),
        (("run", "--nope"), ("--nope",)),
        (("run", "--stage", "qvk"), ("'qvk'", "qkv")),
        (("run", "--stage", "qkv,zebra"), ("'zebra'", "attention")),
        (("run", "--model", "andrea-120"), ("andrea-120m",)),
        (("run", "--dtype", "fp8"), ("'fp8'", "bf16")),
        (("run", "--mask", "diagonal"), ("'diagonal'", "causal")),
        (("run", "--d-model", "768", "--n-head", "10"), ("d_model 768", "n_head 10", "8 or 12 would do")),
        (("run", "--d-model", "768", "--head-dim", "72"), ("head_dim 72", "64 or 96 would do")),
        (("run", "--head-dim", "64", "--n-head", "12", "--d-model", "700"), ("700", "768")),
        (("run", "--seq-len", "0"), ("--seq-len", "'0'")),
        (("run", "--batch", "1.5"), ("--batch", "'1.5'")),
        (("run", "--batch", "-3"), ("--batch",)),
        (("run", "--all", "--budget", "soon"), ("--budget", "'soon'", "90s")),
        (("run", "--all", "--budget", "0"), ("--budget",)),
        (("run", "--all", "--budget", "nan"), ("--budget",)),
        (("run", "--all", "--replicates", "0"), ("--replicates 0", "1 to 100")),
        (("run", "--all", "--seed", "x"), ("--seed",)),
        (("run", "--all", "--seed", str(10**29)), ("--seed", "range")),
        (("run", "--all", "--out", ""), ("--out", "'' is no path")),
        (("run", "--resume", ""), ("--resume", "'' is no path")),
        (("list", "--plugin", ""), ("--plugin", "'' is no path")),
        (("ab", "--base-python", ""), ("--base-python", "'' is no path")),
        (("ab", "main", "--head-python", ""), ("--head-python", "'' is no path")),
        (("report", "latest", "--html", "-"), ("--html", "'-'", "./- would do")),
        (("report", "latest", "--parquet", ""), ("--parquet", "'' is no path")),
        (("run", "--resume", "x", "--dry-run"), ("--resume", "--dry-run")),
        (("run", "--stage", ","), ("--stage", "holds no value")),
        (("run", "--all", "--counters", "cupti"), ("--counters", "'cupti'", "ncu")),
        (("run", "--resume", "/nowhere"), ("/nowhere",)),
        (("report", "/nowhere"), ("/nowhere",)),
        (("report",), ("'run'",)),
        (("report", "x", "--csv", "--json"), ("--csv", "--json")),
        (("report", "x", "--by", "head_dims"), ("--by", "'head_dims'", "did you mean head_dim")),
        (("report", "x", "--by", "batch", "--by", "mask"), ("--by", "one value", "given 2")),
        (("run", "--all", "--budget", "9s", "--budget=10s"), ("--budget", "one value", "given 2")),
        (("report", "x", "--pytest-benchmark", "--parquet", "y"), ("--pytest-benchmark", "--parquet")),
        (("compare", "/nowhere", "/nowhere"), ("/nowhere",)),
        (("compare", "x"), ("'head'",)),
        (("results",), ("command",)),
        (("results", "promote", "/nowhere", "name"), ("/nowhere",)),
    ],
)
def test_wrong_usage_ends_in_one_line_that_names_what_would_do(capsys, monkeypatch, arguments, words):
    line = refused(capsys, monkeypatch, *arguments)
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--variant", "sdap"), ("'sdap'", "sdpa")),
        (("--variant", "sdpa", "--stage", "qkv"), ("'sdpa'", "attention")),
        (("--device", "tpu", "--all"), ("'tpu'", "cuda")),
        (("--seq-len", str(2**40), "--stage", "attention"), (str(2**40), "smaller --batch or --seq-len")),
        (("--batch", str(2**40)), (str(2**40),)),
        (("--plugin", "/nowhere.py", "--all"), ("/nowhere.py",)),
    ],
)
def test_what_only_the_machine_can_tell_is_refused_as_clearly(arguments, words):
    device = () if "--device" in arguments else ("--device", "cpu")
    done = headbench("run", *device, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def test_a_device_that_is_not_there_is_wrong_usage():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    done = headbench("run", "--all", "--device", "cuda")
    assert done.returncode == 2
    assert "'cuda' is not there" in done.stderr


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise OSError('no licence')\n", ("OSError", "no licence", "line 1")),
        ("import nowhere_to_be_found\n", ("ModuleNotFoundError", "nowhere_to_be_found")),
        ("import sys\nsys.exit(5)\n", ("SystemExit", "5")),
        ("def f(:\n", ("SyntaxError",)),
        ("x = 1\n", ("subclass of", "Variant")),
        (
            "from variants.variant import Variant\nclass V(Variant):\n    stage = 'attention'\n    name = 'sdpa'\n"
            "    def call(self, q, k, v): return q\n",
            ("attention/sdpa", str(Path("variants") / "attention" / "sdpa.py")),
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_with_its_fault(tmp_path, source, words):
    plugin = tmp_path / "mine.py"
    plugin.write_text(source)
    done = headbench("run", "--device", "cpu", "--all", "--plugin", plugin)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for word in (str(plugin), *words):
        assert word in done.stderr


@pytest.mark.parametrize(
    ("fault", "word"), [("ctypes.string_at(0)", "SIGSEGV"), ("raise KeyboardInterrupt", "Interrupt")]
)
def test_a_plugin_that_ends_its_process_on_import_is_survived(tmp_path, fault, word):
    plugin = tmp_path / "mine.py"
    plugin.write_text(f"import ctypes\n{fault}\n")
    done = headbench("run", "--device", "cpu", "--all", "--plugin", plugin)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert word in done.stderr
    assert str(plugin) in done.stderr


def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_measured(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = tiny_run(blocked / "runs", "--stage", "output")
    assert done.returncode == 1
    assert str(blocked / "runs") in done.stderr
    assert "--out" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_depth_without_a_stack_is_wrong_usage():
    done = headbench("run", "--stage", "qkv", "--n-layer", "2", "--dry-run")
    assert done.returncode == 2
    assert "--n-layer 2 is the depth of a stack, and --stage qkv has none" in done.stderr
