"""pytest run as a user runs it, in a folder of its own; the measuring scripted unless a test wants it real."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from tests.harness.commands import environment

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTED = """
import json, os
from pathlib import Path
import harness.one_case, harness.probe
from harness.one_case import plan_of
from harness.plan import VariantFacts
from results.run import Run
from results.schema import Outcome, Timing, Trial
from tests.results import builders

SCRIPT = json.loads(os.environ["SCRIPT"])
ENVIRONMENT = {**builders.GPU_ENVIRONMENT, "headbench": "0.1.0"}
ENVIRONMENT["gpu"] = {**ENVIRONMENT["gpu"], "memory_bytes": 1 << 37, "uuid": SCRIPT.get("uuid", "GPU-1")}

def look(device, plugins):
    with Path("looked").open("a") as file:
        file.write("looked\\n")
    names = ["fused_qkv", *(f"is_{outcome}" for outcome in Outcome)]
    return ENVIRONMENT, [VariantFacts("qkv", name, "", "", None, None) for name in names]

def measure_case(selection, settings, environment, variants):
    (case,) = plan_of(selection, environment, variants).cases
    Path("asked").write_text(f"{settings.replicates}")
    outcome = Outcome(case.variant.removeprefix("is_")) if case.variant != "fused_qkv" else Outcome.OK
    trials = []
    for replicate in range(settings.replicates):
        median_s = SCRIPT.get("median_s", 1e-4) * (1 + replicate / 100)
        spans = (9 * median_s, 0.9 * median_s, median_s, 1.2 * median_s)
        timings = {mode: Timing(span_s=spans, warmup_samples=1) for mode in SCRIPT.get("modes", ["isolated"])}
        if "graph" not in timings:
            timings["graph"] = Timing(reason="it synchronises")
        said = {"reason": "made up"} if outcome is not Outcome.OK else {"timings": timings}
        trials.append(Trial(case, replicate, outcome, **said))
    return Run(Path(), builders.manifest([case], environment=environment, replicates=settings.replicates), trials)

harness.probe.look = look
import harness.headbench_fixture
harness.headbench_fixture.measure_case = measure_case

def pytest_benchmark_generate_machine_info():
    return {"node": "here", "processor": "", "machine": "", "cpu": {"brand": "made up"}}
"""

LEAN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
"""Plugins that only cost time here."""

ONE_TEST = """
def test_fused(headbench):
    headbench(stage="qkv", variant="fused_qkv", batch=32)
"""


@dataclass
class Session:
    """A folder with one test file; unless `scripted`, it measures this machine."""

    folder: Path

    def write(self, tests: str = ONE_TEST, scripted: bool = True) -> None:
        (self.folder / "test_it.py").write_text(tests)
        (self.folder / "conftest.py").write_text(SCRIPTED if scripted else "")

    def run(self, *arguments: str, **script: Any) -> subprocess.CompletedProcess[str]:
        """pytest's end; `script` says what is measured: median_s, modes, uuid. Variant `is_crashed` crashes."""
        installed = any(found.name == "headbench" for found in entry_points(group="pytest11"))
        ours = [] if installed else ["-p", "pytest_headbench"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *LEAN, "-rA", *ours, *arguments],
            cwd=self.folder,
            env={**environment(), "SCRIPT": json.dumps(script), "PYTEST_ADDOPTS": "", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def benchmarks(self, *arguments: str, **script: Any) -> dict[str, Any]:
        """The JSON report of a session that passed."""
        done = self.run("--benchmark-json=report.json", *arguments, **script)
        assert done.returncode == 0, done.stdout
        data: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return data

    def asked(self) -> int:
        """How many replicates were asked for."""
        return int((self.folder / "asked").read_text())

    def looks(self) -> int:
        """How often the machine was looked at."""
        path = self.folder / "looked"
        return len(path.read_text().splitlines()) if path.exists() else 0
