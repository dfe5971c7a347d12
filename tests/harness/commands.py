"""Run headbench as a user does: a process of its own, small shapes, one replicate unless a test needs more."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from harness import __main__ as entry

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = Path(__file__).parent / "plugins"
TINY = ("--d-model", "32", "--n-head", "2", "--seq-len", "16", "--batch", "1", "--device", "cpu")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "harness", *map(str, arguments)]


def environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}  # xdist sets it
    return {**inherited, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}


def headbench(
    *arguments: object, cwd: Path | None = None, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """The finished command; its output must hold no traceback, whatever was asked for."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=timeout_s,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "\x1b" not in done.stdout, "control codes in piped output"
    return done


def tiny_run(out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return headbench("run", *TINY, "--budget", "1s", "--out", out, *arguments)


def only_run(out: Path) -> Path:
    (path,) = out.iterdir()
    return path


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


def children_of(parent: int) -> list[int]:
    """The processes that it has started and that still run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, above = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended while we looked
        if int(above) == parent and state != "Z":
            found.append(int(status.parent.name))
    return found


def has_ended(pid: int, within_s: float = 10.0) -> bool:
    """Whether the process ends in time; one that nobody has reaped yet has ended, too."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)
