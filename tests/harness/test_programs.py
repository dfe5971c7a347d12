"""Which code a child runs: its own folder's, whatever else is installed or on the path."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from harness.child import Child, Program

from .commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

INSTALLED = pytest.mark.parametrize("kind", ["package", "path file"])


def python_with(kind: str, installed: Path, folder: Path) -> Path:
    """An interpreter of a new environment, in which the code under `installed` is installed."""
    import venv

    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    if kind == "package":
        shutil.copytree(installed, site, dirs_exist_ok=True)
    else:
        (site / "_editable_impl_headbench.pth").write_text(f"{installed}\n")
    return folder / "bin" / "python"


def a_tree(folder: Path, name: str) -> Path:
    """A folder with a package `harness` whose module `say` tells which tree it came from."""
    (folder / "harness").mkdir(parents=True)
    (folder / "harness" / "__init__.py").write_text("")
    shutil.copy(ROOT / "harness" / "channel.py", folder / "harness")
    (folder / "harness" / "say.py").write_text(
        f"from harness.channel import Channel\nimport sys\n"
        f"Channel().send({name!r}, prefix=sys.prefix, path=sys.path)\n"
    )
    return folder


@INSTALLED
@pytest.mark.parametrize("on_the_path", [False, True])
def test_a_program_s_own_folder_wins_over_one_that_is_installed_or_on_the_path(
    tmp_path, monkeypatch, kind, on_the_path
):
    mine, other = a_tree(tmp_path / "mine", "mine"), a_tree(tmp_path / "other", "other")
    python = python_with(kind, other, tmp_path / "environment")
    monkeypatch.setenv("PYTHONPATH", str(other) if on_the_path else "")
    monkeypatch.chdir(other)
    with Child("harness.say", {}, 20.0, Program(str(python), mine)) as child:
        (event,) = child.events()
    assert event["event"] == "mine"
    assert event["prefix"] == str(tmp_path / "environment")


@INSTALLED
def test_code_that_is_installed_for_this_interpreter_does_not_put_its_folder_before_the_standard_library(
    tmp_path, monkeypatch, kind
):
    tree = a_tree(tmp_path / "tree", "installed")
    for name in ("child", "__init__"):
        shutil.copy(ROOT / "harness" / f"{name}.py", tree / "harness")
    python = python_with(kind, tree, tmp_path / "environment")
    (site,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (site / "selectors.py").write_text("raise RuntimeError('not the standard library')\n")
    monkeypatch.setenv("PYTHONPATH", "")
    ask = (
        "from harness.child import Child\nwith Child('harness.say', {}, 20.0) as child:\n"
        "    print([event['event'] for event in child.events()], child.how_it_ended())"
    )
    done = subprocess.run([python, "-P", "-c", ask], capture_output=True, text=True, check=False)
    assert done.stdout == "['installed'] ended with exit code 0\n", done.stderr
