"""An `ncu` to put on the PATH: it runs its target, or plays one, and writes what the real program has written."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSION = """NVIDIA (R) Nsight Compute Command Line Profiler
Copyright (c) 2018-2025 NVIDIA Corporation
Version 2025.3.1.0 (build 36398880) (public-release)
"""

PROGRAM = '''#!{python}
"""The fake: each start of it plays the next of its scripts, the last one again and again."""
import json, os, subprocess, sys, time
from pathlib import Path

folder = Path({folder!r})
if "--version" in sys.argv:
    sys.stdout.write({version!r})
    sys.exit()
with (folder / "starts.jsonl").open("a") as starts:
    starts.write(json.dumps(sys.argv[1:]) + "\\n")
scripts = json.loads((folder / "scripts.json").read_text())
number = len((folder / "starts.jsonl").read_text().splitlines()) - 1
script = scripts[min(number, len(scripts) - 1)]
log = Path(sys.argv[sys.argv.index("--log-file") + 1])
target = sys.argv[sys.argv.index("--metrics") + 2:]

if script["runs"]:
    path = os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])
    code = subprocess.run(target, env=dict(os.environ, PYTHONPATH=path)).returncode
else:
    job = sys.stdin.readline()
    with (folder / "jobs.jsonl").open("a") as jobs:
        jobs.write(job)
    for event in script["events"]:
        print(json.dumps(event), flush=True)
    code = script["exit_code"]
if script["prints"]:
    print(script["prints"], flush=True)
if script["log"] is not None:
    log.write_text(script["log"])
if script["hangs"]:
    time.sleep(600)
sys.exit(code)
'''

NO_CUDA = '''"""Imported by every Python that finds this folder on its path: a GPU's part of a range, without a GPU."""
import sys
from importlib.abc import MetaPathFinder

class Quiet:
    def __getattr__(self, name):
        return lambda *arguments: None

class AfterTorch(MetaPathFinder):
    """Lets torch be imported as it is, and takes its CUDA calls away once the sensor is."""
    def find_spec(self, name, path, target=None):
        if name == "harness.sensors.ncu_range":
            import torch
            torch.cuda.synchronize = lambda: None
            torch.cuda.cudart = Quiet
            torch.cuda.nvtx = Quiet()
        return None

sys.meta_path.insert(0, AfterTorch())
'''


def script(events=(), *, runs=False, log=None, prints="", exit_code=0, hangs=False) -> dict:
    """What one start does: run the target, or send `events`; then print, write the log, and end, or not."""
    return {
        "events": list(events),
        "runs": runs,
        "log": log,
        "prints": prints,
        "exit_code": exit_code,
        "hangs": hangs,
    }


class FakeNcu:
    """The program in `folder`, first on the PATH."""

    def __init__(self, folder: Path, monkeypatch, *scripts: dict) -> None:
        self._folder = folder / "fake_ncu"
        self._folder.mkdir()
        program = self._folder / "ncu"
        program.write_text(PROGRAM.format(python=sys.executable, folder=str(self._folder), version=VERSION))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (self._folder / "sitecustomize.py").write_text(NO_CUDA)
        monkeypatch.setenv("PATH", os.pathsep.join([str(self._folder), os.environ["PATH"]]))
        self.plays(*scripts)

    def plays(self, *scripts: dict) -> None:
        """What it does from its first start on."""
        (self._folder / "scripts.json").write_text(json.dumps(scripts))

    def starts(self) -> list[list[str]]:
        """The arguments of each start, `--version` apart."""
        return self._lines("starts.jsonl")

    def jobs(self) -> list[dict]:
        """What the targets that were played were told."""
        return self._lines("jobs.jsonl")

    def _lines(self, name: str) -> list:
        file = self._folder / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
