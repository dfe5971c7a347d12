"""Git repositories whose headbench is real but for its probe and worker: these are scripts, and import no torch.

What they send is written in `script.json` of their tree, so that both sides of an `ab` do exactly what a test says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from .commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PROBE = """
import json, sys
from pathlib import Path
from harness.channel import Channel

channel = Channel()
script = json.loads((Path(__file__).parent.parent / "script.json").read_text())
variants = [
    {"stage": "attention", "name": name, "hypothesis": "", "needs": "", "missing": does.get("missing"), "dtypes": None}
    for name, does in script["variants"].items()
]
gpu = {"name": "Scripted GPU", "uuid": "GPU-0", "memory_bytes": 1 << 36}
environment = {
    "device": "cuda:0", "notices": script["notices"], "gpu": gpu, "cpu": {"name": "CPU", "memory_bytes": 1 << 36},
    "torch": {"version": "2.13.0"}, "source_sha256": json.dumps(script), "prefix": sys.prefix, "git": None,
}
channel.send("facts", environment=environment, variants=variants)
"""

WORKER = """
import json, os, random, time
from pathlib import Path
from harness.channel import Channel
from results.schema import Case, Outcome, Timing, Trial

root = Path(__file__).parent.parent
script = json.loads((root / "script.json").read_text())
channel = Channel()
replicate = channel.job["replicate"]
channel.send("ready")
for fields in channel.job["cases"]:
    case = Case(**fields)
    does = script["variants"][case.variant]
    channel.send("begin", group=case.group, case=case.key, step="isolated")
    time.sleep(does.get("takes_s", 0))
    if does.get("dies"):
        os._exit(5)
    noise = random.Random(f"{case.variant} {replicate} {root.name}").gauss(0, does.get("sigma", 0.001))
    span_s = 1e-4 * (1 + noise) * (does.get("fresh", 1) if replicate >= 10 else does.get("factor", 1))
    timing = Timing(span_s=(span_s,) * 5)
    timings = dict.fromkeys(("isolated", "eager", "graph"), timing)
    channel.send("trial", trial=Trial(case=case, replicate=replicate, outcome=Outcome.OK, timings=timings).to_json())
channel.send("done")
"""


def git(folder: Path, *arguments: str) -> str:
    """What git says, in a repository that knows neither this machine's settings nor its user."""
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def commit_all(folder: Path, message: str = "a change") -> str:
    """Commit everything there is; the commit's hash."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD").strip()


def repository(folder: Path, files: dict[str, str]) -> Path:
    """A repository on branch `main` with these files committed."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, files)
    commit_all(folder)
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files below a folder; a folder that is missing is made."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def headbench_tree(folder: Path) -> Path:
    """This checkout's packages, without the recorded runs."""
    unwanted = shutil.ignore_patterns("__pycache__", "reference", "runs")
    for package in ("harness", "variants", "kernels", "results", "reports"):
        shutil.copytree(ROOT / package, folder / package, ignore=unwanted)
    return folder


def scripted_checkout(folder: Path, variants: dict[str, dict[str, Any]]) -> Path:
    """A committed checkout of a headbench whose probe and worker are scripts."""
    headbench_tree(folder)
    script(folder, variants)
    return repository(
        folder,
        {"harness/probe.py": PROBE, "harness/worker.py": WORKER, ".gitignore": "runs/\n__pycache__/\n"},
    )


def script(folder: Path, variants: dict[str, dict[str, Any]], notices: tuple[str, ...] = ()) -> None:
    """Write what each variant does: `factor` to 100 µs in pairs 0 to 9 and `fresh` after, `sigma` around it,
    `takes_s` seconds to wait, `dies`, or `missing` with a reason."""
    write(folder, {"script.json": json.dumps({"variants": variants, "notices": notices})})
