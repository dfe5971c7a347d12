"""Both sides of an `ab`: for each a copy of its code in a temporary folder, an interpreter, and its plugins.

In a checkout of headbench a side is the whole tree at its commit, harness and all. Elsewhere both sides are the
running headbench, and what differs is the repository's own: the plugins, and what they import from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import __version__
from harness.child import RUNNING, Program
from harness.environment import PACKAGES
from harness.errors import HeadbenchError, UsageError
from harness.repository import Repository

WORKING_TREE = "working tree"
HOLDS = ("harness/worker.py", "harness/probe.py", "variants/registry.py", "results/schema.py")
"""What a tree with a headbench in it has."""
LEAST_PYTHON = (3, 11)
ASK = (
    "import sys; sys.path[:] = filter(None, sys.path); import importlib.util as u; "
    "print(*sys.version_info[:2], u.find_spec('harness').origin)"
)
ASK_S = 60.0


@dataclass(frozen=True, slots=True)
class SideRequest:
    """What the user said of one side: `ref` None is the working tree, `python` None the running interpreter."""

    name: str
    ref: str | None
    python: Path | None


@dataclass(frozen=True, slots=True)
class Side:
    """One side, ready to be run.

    `label` says what it is, `git` its commit and whether that is all of it; `absent` are the plugins it lacks.
    With `shared` its headbench is the other side's, too, so that only the variants of plugins can differ.
    """

    name: str
    label: str
    program: Program
    plugins: tuple[Path, ...]
    git: dict[str, Any] | None = None
    absent: tuple[Path, ...] = ()
    shared: bool = False


def prepare(
    requests: tuple[SideRequest, SideRequest], plugins: tuple[Path, ...], scratch: Path
) -> tuple[Side, Side]:
    """Both sides, copied into folders of `scratch`, seen from the current folder.

    Raises:
        UsageError: a ref, an interpreter or a plugin is not there or cannot be used.
    """
    repository = _repository(requests)
    own = repository is not None and _holds_headbench(repository.top)
    named = [asked for asked in requests if asked.ref is not None]
    for plugin in plugins if named else ():
        _refuse_link_out(plugin, repository)
    if named and not own and not any(_inside(plugin, repository) for plugin in plugins):
        raise UsageError(
            f"{Path.cwd()} is no checkout of headbench: to compare variants that it holds, at {named[0].ref} and now, "
            f"name their files with --plugin FILE"
        )
    pythons = {asked.name: _interpreter(asked) for asked in requests}  # before anything is copied
    commits = {asked.name: repository.commit_of(asked.ref) for asked in requests if repository and asked.ref}
    base, head = (
        _side(asked, pythons[asked.name], commits.get(asked.name), repository, own, plugins, scratch)
        for asked in requests
    )
    for plugin in set(base.absent) & set(head.absent):
        why = "git ignores it, so that no commit has it" if plugin.is_file() else "there is no such file"
        raise UsageError(f"--plugin {plugin} is on neither side: {why}")
    if named and not own:
        base, head = replace(base, shared=True), replace(head, shared=True)
    return base, head


def _repository(requests: tuple[SideRequest, SideRequest]) -> Repository | None:
    """The current folder's; None where there is none and no commit was asked for."""
    try:
        return Repository.around(Path.cwd())
    except UsageError:
        if any(asked.ref is not None for asked in requests):
            raise
        return None


def _side(
    asked: SideRequest,
    python: str,
    commit: str | None,
    repository: Repository | None,
    own: bool,
    plugins: tuple[Path, ...],
    scratch: Path,
) -> Side:
    tree = scratch / asked.name
    label, git = _place(asked, commit, repository, tree, scratch)
    if own or repository is None:
        program = Program(python, tree)
    else:
        program = Program(python, scratch / f"{asked.name}-headbench", (tree, tree / "src"))
        _copy_running(program.root)
    if own and not _holds_headbench(tree):
        raise UsageError(
            f"{asked.name} {label} holds no headbench, it lacks {HOLDS[0]}: name a commit that has it"
        )
    _check_interpreter(asked, program)
    its, absent = _its_plugins(plugins, repository, tree)
    return Side(
        name=asked.name,
        label=f"{label}, {asked.python}" if asked.python else label,
        program=program,
        plugins=its,
        git=git,
        absent=absent,
    )


def _place(
    asked: SideRequest, commit: str | None, repository: Repository | None, tree: Path, scratch: Path
) -> tuple[str, dict[str, Any] | None]:
    """Copy the side's tree to its place; what to call it, and what git says of it."""
    if repository is None:
        _copy_running(tree)
        return f"headbench {__version__}", None
    tree.mkdir()
    if asked.ref is not None and commit is not None:
        repository.export(commit, tree, scratch / f"{asked.name}.index")
        short = commit[:7]
        return asked.ref if asked.ref.startswith(short) else f"{asked.ref} ({short})", _git(commit, True)
    clean = repository.is_clean()
    repository.copy_working_tree(tree)
    at = repository.head()
    changes = "" if clean else ", with changes"
    return f"{WORKING_TREE} ({at[:7] if at else 'no commit'}{changes})", _git(at, clean) if at else None


def _git(commit: str, clean: bool) -> dict[str, Any]:
    return {"commit": commit, "clean": clean}


def _holds_headbench(tree: Path) -> bool:
    return all((tree / name).is_file() for name in HOLDS)


def _copy_running(root: Path) -> None:
    """The running headbench's packages, without what is installed beside them and the runs it comes with."""
    unwanted = shutil.ignore_patterns("__pycache__", "reference", "runs")
    for package in PACKAGES:
        shutil.copytree(RUNNING.root / package, root / package, ignore=unwanted)


def _its_plugins(
    plugins: tuple[Path, ...], repository: Repository | None, tree: Path
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The plugin files as this side has them, and those that it lacks; one outside the repository is shared."""
    its, absent = [], []
    for plugin in plugins:
        inside = _inside(plugin, repository)
        file = tree / inside if inside else plugin.absolute()
        if inside and not file.is_file():
            absent.append(plugin)
        else:
            its.append(file)
    return tuple(its), tuple(absent)


def _refuse_link_out(plugin: Path, repository: Repository | None) -> None:
    """A link that leads out of the repository has no history: both sides would measure one file, as if compared."""
    if repository is None or _inside(plugin, repository):
        return
    named = Path(os.path.abspath(plugin))  # noqa: PTH100 - resolving would follow the link
    if named.is_relative_to(repository.top):
        raise UsageError(
            f"--plugin {plugin} is a link that leads out of {repository.top}, so that no commit has what it holds: to "
            f"measure one file on both sides, name {plugin.resolve()}"
        )


def _inside(plugin: Path, repository: Repository | None) -> Path | None:
    """The plugin's path from the top of the repository, None when it lies elsewhere."""
    top = repository.top.resolve() if repository else None
    path = plugin.resolve()
    return path.relative_to(top) if top and path.is_relative_to(top) else None


def _interpreter(asked: SideRequest) -> str:
    """The interpreter to start; a link is kept as it is, for that is how a virtual environment is known.

    Raises:
        UsageError: there is no such program.
    """
    if asked.python is None:
        return sys.executable
    found = shutil.which(os.fspath(asked.python))
    if found is None:
        raise UsageError(
            f"--{asked.name}-python {asked.python} is no program that can be run: the path of a Python would do, as in "
            f"--{asked.name}-python old/bin/python"
        )
    return os.fspath(Path(found).absolute())


def _check_interpreter(asked: SideRequest, program: Program) -> None:
    """Ask the interpreter what it is and whose headbench it would import, before torch is asked for.

    Raises:
        UsageError: it is no Python, or too old.
        HeadbenchError: it would import another headbench than the side's.
    """
    what = f"--{asked.name}-python {asked.python}" if asked.python else f"{asked.name}: {program.python}"
    try:
        done = subprocess.run(
            [program.python, "-c", ASK], env=program.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=ASK_S, check=False,
        )  # fmt: skip
        major, minor, origin = done.stdout.decode().strip().split(" ", 2)
        version = (int(major), int(minor))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise UsageError(
            f"{what} does not answer as Python: name the interpreter of an environment"
        ) from None
    if version < LEAST_PYTHON:
        raise UsageError(
            f"{what} is Python {major}.{minor}: headbench needs {'.'.join(map(str, LEAST_PYTHON))}"
        )
    if not Path(origin).resolve().is_relative_to(program.root.resolve()):
        raise HeadbenchError(
            f"{what} would import {origin}, not {asked.name}'s own code: uninstall that headbench"
        )
