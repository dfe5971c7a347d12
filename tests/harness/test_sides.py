"""What becomes a side: whole trees of a headbench checkout, or the running headbench and a repository's own plugins."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from harness.child import RUNNING
from harness.errors import HeadbenchError, UsageError
from harness.sides import SideRequest, prepare

from .commands import ROOT
from .scripted_trees import commit_all, git, headbench_tree, repository, write

BASE, HEAD = SideRequest("base", "HEAD", None), SideRequest("head", None, None)
ITSELF = SideRequest("base", None, None)


@pytest.fixture
def scratch(tmp_path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """The current folder: a checkout of headbench."""
    checkout = repository(headbench_tree(tmp_path / "own"), {".gitignore": "ignored.py\n"})
    monkeypatch.chdir(checkout)
    return checkout


@pytest.fixture
def foreign(tmp_path, monkeypatch) -> Path:
    """The current folder: somebody's project, with a file of variants."""
    project = repository(
        tmp_path / "project",
        {"bench/mine.py": "import mylib\n", "src/mylib.py": "VERSION = 1\n", "top.py": "VERSION = 1\n"},
    )
    monkeypatch.chdir(project)
    return project


def import_of(side, module: str) -> str:
    """The file that a child of this side would import."""
    ask = f"import {module}; print({module}.__file__)"
    done = subprocess.run(
        [side.program.python, "-P", "-c", ask], env=side.program.environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_in_its_own_checkout_each_side_is_a_whole_tree_harness_and_all(own, scratch):
    write(own, {"harness/errors.py": (own / "harness/errors.py").read_text() + "# changed\n", "new.py": ""})
    base, head = prepare((BASE, HEAD), (), scratch)
    assert import_of(base, "harness.errors") == str(scratch / "base" / "harness" / "errors.py")
    assert import_of(head, "harness.errors") == str(scratch / "head" / "harness" / "errors.py")
    assert "# changed" not in (scratch / "base" / "harness" / "errors.py").read_text()
    assert "# changed" in (scratch / "head" / "harness" / "errors.py").read_text()
    assert (scratch / "head" / "new.py").exists()
    assert not base.shared


def test_a_side_says_what_it_is_and_whether_that_is_committed(own, scratch):
    commit = git(own, "rev-parse", "HEAD").strip()
    (scratch / "2").mkdir()
    base, head = prepare(
        (SideRequest("base", "main", None), SideRequest("head", commit[:9], None)), (), scratch
    )
    assert (base.label, head.label) == (f"main ({commit[:7]})", commit[:9])
    assert base.git == head.git == {"commit": commit, "clean": True}
    write(own, {"new.py": ""})
    _, head = prepare((BASE, HEAD), (), scratch / "2")
    assert head.label == f"working tree ({commit[:7]}, with changes)"
    assert head.git == {"commit": commit, "clean": False}


def test_a_commit_that_holds_no_headbench_is_refused(own, scratch):
    git(own, "checkout", "--quiet", "--orphan", "empty")
    git(own, "rm", "--quiet", "-r", "--cached", ".")
    write(own, {"only.txt": ""})
    git(own, "add", "only.txt")
    git(own, "commit", "--quiet", "--message", "another history")
    with pytest.raises(UsageError, match=r"base empty \(.*\) holds no headbench, it lacks harness/worker.py"):
        prepare((SideRequest("base", "empty", None), HEAD), (), scratch)


def test_elsewhere_the_sides_share_the_running_headbench_and_take_plugins_from_their_trees(foreign, scratch):
    write(foreign, {"bench/mine.py": "import mylib  # changed\n", "src/mylib.py": "VERSION = 2\n"})
    base, head = prepare((BASE, HEAD), (Path("bench/mine.py"),), scratch)
    assert base.shared
    assert head.shared
    assert [side.plugins for side in (base, head)] == [
        (scratch / "base" / "bench" / "mine.py",), (scratch / "head" / "bench" / "mine.py",),
    ]  # fmt: skip
    assert "# changed" not in base.plugins[0].read_text()
    assert "# changed" in head.plugins[0].read_text()
    for side in (base, head):
        headbench = Path(import_of(side, "harness"))
        assert headbench.is_relative_to(scratch)
        assert headbench.read_text() == (ROOT / "harness" / "__init__.py").read_text()
        # What a plugin imports of its own project comes from the side's tree, too.
        assert import_of(side, "mylib") == str(scratch / side.name / "src" / "mylib.py")
        assert import_of(side, "top") == str(scratch / side.name / "top.py")


def test_a_plugin_is_found_from_a_folder_inside_the_repository_and_by_its_full_path(
    foreign, scratch, monkeypatch
):
    monkeypatch.chdir(foreign / "bench")
    for number, plugin in enumerate((Path("mine.py"), foreign / "bench" / "mine.py")):
        (scratch / str(number)).mkdir()
        base, _ = prepare((BASE, HEAD), (plugin,), scratch / str(number))
        assert base.plugins == (scratch / str(number) / "base" / "bench" / "mine.py",)


def test_a_plugin_that_one_side_lacks_is_that_sides_absence_and_no_error(foreign, scratch):
    write(foreign, {"bench/new.py": ""})
    base, head = prepare((BASE, HEAD), (Path("bench/mine.py"), Path("bench/new.py")), scratch)
    assert base.absent == (Path("bench/new.py"),)
    assert len(base.plugins) == 1
    assert head.absent == ()
    assert len(head.plugins) == 2


@pytest.mark.parametrize(
    ("plugin", "why"), [("ignored.py", "git ignores it"), ("nowhere.py", "there is no such file")]
)
def test_a_plugin_that_neither_side_has_is_refused(own, scratch, plugin, why):
    write(own, {"ignored.py": ""})
    with pytest.raises(UsageError, match=f"--plugin {plugin} is on neither side: {why}"):
        prepare((BASE, HEAD), (Path(plugin),), scratch)


@pytest.mark.parametrize("link", ["mine.py", "folder"])
@pytest.mark.parametrize("place", ["own", "foreign"])
def test_a_plugin_that_is_a_link_out_of_the_repository_is_refused(request, scratch, tmp_path, place, link):
    checkout = request.getfixturevalue(place)
    (tmp_path / "outside").mkdir()
    real = tmp_path / "outside" / "linked.py"
    real.write_text("")
    (checkout / link).symlink_to(real if link == "mine.py" else real.parent)
    commit_all(checkout)
    plugin = checkout / link if link == "mine.py" else checkout / link / "linked.py"
    with pytest.raises(UsageError, match=f"is a link that leads out of .* name {real}"):
        prepare((BASE, HEAD), (plugin,), scratch)
    if place == "own":
        base, head = prepare((BASE, HEAD), (real,), scratch)
        assert base.plugins == head.plugins == (real,)


def test_elsewhere_commits_cannot_be_compared_without_a_plugin_of_the_repository(foreign, scratch, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("")
    for plugins in ((), (outside,)):
        with pytest.raises(
            UsageError, match=r"no checkout of headbench: .* at HEAD and now, .*--plugin FILE"
        ):
            prepare((BASE, HEAD), plugins, scratch)


def test_outside_any_repository_the_running_headbench_is_compared_with_itself(scratch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base, head = prepare((ITSELF, HEAD), (), scratch)
    assert base.label == head.label
    assert base.label.startswith("headbench ")
    assert base.git is None
    assert Path(import_of(base, "harness")).parent == scratch / "base" / "harness"
    assert not list(scratch.rglob("reference"))
    with pytest.raises(UsageError, match="no working tree"):
        prepare((BASE, HEAD), (), scratch)


def test_an_interpreter_is_taken_as_it_is_named_for_a_link_is_how_an_environment_is_known(
    scratch, tmp_path, monkeypatch
):
    venv.create(tmp_path / "old", symlinks=True)
    monkeypatch.chdir(tmp_path)
    base, head = prepare((SideRequest("base", None, Path("old/bin/python")), HEAD), (), scratch)
    assert base.program.python == str(tmp_path / "old" / "bin" / "python")
    assert base.label.endswith(", old/bin/python")
    assert head.program.python == RUNNING.python == sys.executable


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("echo 3 9 /usr/lib/harness.py", ("is Python 3.9", "needs 3.11")),
        ("echo hello", ("does not answer as Python",)),
        ("exit 0", ("does not answer as Python",)),
        ("kill -9 $$", ("does not answer as Python",)),
    ],
)
def test_a_program_that_is_no_python_or_too_old_is_refused_by_its_option(
    scratch, tmp_path, monkeypatch, answer, words
):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    with pytest.raises(UsageError) as refused:
        prepare((SideRequest("base", None, program), HEAD), (), scratch)
    for word in (f"--base-python {program}", *words):
        assert word in str(refused.value)


def test_an_interpreter_that_would_import_another_headbench_is_refused(scratch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / "old", symlinks=True)
    other = tmp_path / "other"
    write(other, {"harness/__init__.py": ""})
    (site,) = (tmp_path / "old").glob("lib/python*/site-packages")
    # An editable installation may put a finder of its own before Python's.
    (site / "hook.pth").write_text(f"import sys; sys.path.insert(0, {json.dumps(str(other))})\n")
    with pytest.raises(
        HeadbenchError, match=r"would import .*other/harness/__init__.py, not base's own code"
    ):
        prepare((SideRequest("base", None, tmp_path / "old" / "bin" / "python"), HEAD), (), scratch)


def test_the_commit_of_a_side_is_its_own_also_when_another_is_made_meanwhile(own, scratch):
    first = git(own, "rev-parse", "HEAD").strip()
    write(own, {"harness/errors.py": "# second\n"})
    commit_all(own)
    base, _ = prepare((SideRequest("base", first, None), HEAD), (), scratch)
    assert base.git == {"commit": first, "clean": True}
    assert (scratch / "base" / "harness" / "errors.py").read_text() != "# second\n"
