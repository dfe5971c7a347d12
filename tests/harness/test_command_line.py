"""What a user meets: one clear line and exit 2 for wrong usage, quick help, nothing heavy imported for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import __main__ as entry

from .commands import PLUGINS, ROOT, command, environment, headbench, only_run, tiny_run


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Run in this process: the exit code must be 2, stderr one line, stdout silent; the line is returned."""
    monkeypatch.setattr(sys, "argv", ["headbench", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("headbench: ")
    return said.err


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
        (
            (
                "--batch",
                str(2**40),
            ),
            (str(2**40),),
        ),
        (("--plugin", "/nowhere.py", "--all"), ("/nowhere.py",)),
    ],
)
def test_what_only_the_machine_can_tell_is_refused_as_clearly(arguments, words):
    done = headbench("run", "--device", "cpu", *arguments)
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


@pytest.mark.parametrize("name", entry.SIBLINGS)
def test_a_foreign_package_found_first_ends_in_one_line_naming_both_files(tmp_path, name):
    foreign = tmp_path / name / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text("raise RuntimeError('imported')\n")
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--all"], capture_output=True, text=True, check=False,
        env={**environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for word in (str(foreign), str(ROOT / name), "virtual environment"):
        assert word in done.stderr


def test_foreign_packages_in_the_current_folder_reach_neither_the_command_nor_its_children(tmp_path):
    for name in ("harness", *entry.SIBLINGS):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('foreign')\n")
    # As the console script is started: its own folder on the path, not the current one.
    plain = {name: value for name, value in environment().items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", "list", "--device", "cpu"],
        capture_output=True, text=True, cwd=tmp_path, env=plain, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "fused_qkv" in done.stdout


def test_a_python_that_headbench_is_not_installed_for_is_named():
    # Without site-packages there is nothing but the standard library, as beside a fresh clone.
    path = {"PYTHONPATH": str(entry.ROOT)}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "harness", "list"],
        capture_output=True, text=True, env=environment() | path, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        f"headbench: typer is not installed for {sys.executable}: activate the virtual environment that headbench "
        f"was installed in, or pip install -e {entry.ROOT}\n"
    )


def test_a_folder_named_results_in_the_current_folder_is_no_foreign_package(tmp_path):
    (tmp_path / "results" / "runs").mkdir(parents=True)
    assert headbench("--version", cwd=tmp_path).returncode == 0


IMPORTED = """
import sys
sys.argv = ["headbench", *{arguments!r}]
from harness.__main__ import main
try:
    main()
except SystemExit as ended:
    print("\\nCODE", ended.code)
print("\\nIMPORTED", *sorted({names!r} & set(sys.modules)))
"""
HEAVY = {"torch", "cupy", "pandas", "scipy", "numpy", "rich.table"}


def imported_by(*arguments: str, names: set[str] = HEAVY) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(arguments=arguments, names=names)],
        capture_output=True, text=True, env=environment(), check=True,
    )  # fmt: skip
    assert "CODE 0" in done.stdout, done.stdout + done.stderr
    return done.stdout.rpartition("IMPORTED")[2].split()


@pytest.mark.parametrize(
    "command", ["run", "ab", "compare", "list", "doctor", "report", "results", "results promote", ""]
)
def test_help_imports_nothing_heavy(command):
    assert imported_by(*command.split(), "--help") == []


SELECTORS = (
    "--all --stage --variant --model --head-dim --n-head --d-model --n-layer --batch --seq-len --mask --dtype "
    "--direction "
    "--device"
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


def test_neither_a_run_nor_a_report_imports_torch_into_the_parent(tmp_path):
    out = tmp_path / "runs"
    run = (
        "run",
        "--d-model",
        "32",
        "--n-head",
        "2",
        "--seq-len",
        "16",
        "--device",
        "cpu",
        "--stage",
        "output",
    )
    torch_alone = {"torch", "cupy"}
    assert (
        imported_by(*run, "--replicates", "1", "--budget", "1s", "--out", str(out), names=torch_alone) == []
    )
    for export in ("", "--csv", "--json", "--markdown"):
        assert imported_by("report", str(only_run(out)), *filter(None, [export]), names=torch_alone) == []


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


def test_list_shows_every_stage_variant_and_preset_with_what_is_missing_here():
    shown = headbench("list", "--device", "cpu", "--plugin", PLUGINS / "hostile.py").stdout
    for word in ("qkv", "fused_qkv", "andrea-480m", "honest", "the lesson", "nvidia-h200/head_dim"):
        assert word in shown
    assert re.search(r"^ sdpa_cudnn +CUDA, .* no ", shown, re.MULTILINE)


def test_list_says_which_stacks_a_run_has_and_counts_the_weights_of_every_preset():
    told = " ".join(headbench("list", "--device", "cpu").stdout.split())
    one_model = "by default andrea-120m alone, on a CPU andrea-12m; --model asks for others"
    assert told.count(one_model) == 2
    assert f"{one_model} as deep as its model, at batch 1; --n-layer and --batch ask for others" in told
    assert re.search(r"andrea-120m 768 12 64 12 28,311,552 1024", told)


@pytest.mark.parametrize(
    ("asked", "has_stacks"),
    [
        ((), False),
        (("--model", "andrea-12m"), False),
        (("--stage", "qkv,stack"), True),
        (("--n-layer", "2"), True),
        (("--variant", "composed"), True),
    ],
)
def test_a_first_look_has_stacks_only_if_they_are_asked_for(asked, has_stacks):
    done = headbench("run", "--quick", "--device", "cpu", "--dry-run", *asked)
    assert bool(re.search(r"^  stack ", done.stdout, re.MULTILINE)) is has_stacks, done.stderr


def test_a_depth_without_a_stack_is_wrong_usage():
    done = headbench("run", "--stage", "qkv", "--n-layer", "2", "--dry-run")
    assert done.returncode == 2
    assert "--n-layer 2 is the depth of a stack, and --stage qkv has none" in done.stderr


def test_list_marks_what_is_measured_aside_and_says_what_arrives_strided():
    shown = headbench("list", "--device", "cpu").stdout
    assert re.search(r"^ sdpa_strided \* ", shown, re.MULTILINE)
    assert re.search(r"^ sdpa +nothing", shown, re.MULTILINE)
    told = " ".join(shown.split())
    assert "buffer [batch, seq_len, n_head, head_dim], for per_head_addmm, strided_matmul" in told
    assert "* measured where --variant names it, or a claim needs it" in told


@pytest.mark.parametrize(("budget", "told"), [("1s", r"at least [1-9]\d* s"), ("30m", "about 1800 s")])
def test_a_budget_that_starting_and_verifying_alone_exceed_is_not_announced_as_the_time(budget, told):
    done = headbench("run", "--stage", "qkv", "--device", "cpu", "--dry-run", "--budget", budget)
    assert re.search(f"; {told}\n", done.stdout)


def test_a_dry_run_says_of_each_stage_what_it_leaves_out():
    done = headbench("run", "--stage", "sublayer,stack", "--device", "cpu", "--dry-run")
    left_out, asides = (line for line in done.stdout.splitlines() if " in sublayer; " in line)
    assert left_out.endswith(": custom in sublayer; fused_graph in stack")
    of_sublayer, of_stack = asides.split(" in sublayer; ")
    assert "nn_multihead_attention" not in of_sublayer
    assert "custom" not in of_sublayer
    assert {"custom", "nn_multihead_attention"} <= set(of_stack.removesuffix(" in stack").split(", "))


def test_a_dry_run_prints_the_plan_and_measures_nothing(tmp_path):
    done = headbench("run", "--all", "--device", "cpu", "--dry-run", "--out", tmp_path / "runs")
    assert done.returncode == 0
    assert "sublayer" in done.stdout
    assert "needs a CUDA device" in done.stdout
    assert not (tmp_path / "runs").exists()
