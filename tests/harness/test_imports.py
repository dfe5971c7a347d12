"""What the command imports: nothing heavy for what needs none, and no foreign package of the same name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness import __main__ as entry

from .commands import ROOT, TINY, environment, headbench, imported_by, only_run


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


@pytest.mark.parametrize(
    "command", ["run", "ab", "compare", "list", "doctor", "report", "results", "results promote", ""]
)
def test_help_imports_nothing_heavy(command):
    assert imported_by(*command.split(), "--help") == []


def test_neither_a_run_nor_a_report_imports_torch_into_the_parent(tmp_path):
    out = tmp_path / "runs"
    run = ("run", *TINY, "--stage", "output", "--replicates", "1", "--budget", "1s", "--out", str(out))
    torch_alone = {"torch", "cupy"}
    assert imported_by(*run, names=torch_alone) == []
    for export in ("", "--csv", "--json", "--markdown"):
        assert imported_by("report", str(only_run(out)), *filter(None, [export]), names=torch_alone) == []
