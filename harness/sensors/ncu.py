"""Nsight Compute on this machine: where it lies, its command line, and what its refusals mean.

It reads the tensor cores' counters kernel by kernel, in a child that runs under it: one call of a case, replayed
as often as the counters need. Times under it are its own and never shown.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ELSEWHERE = (
    ("/usr/local/cuda/bin", "ncu"),
    ("/usr/local", "cuda-*/bin/ncu"),
    ("/opt/nvidia/nsight-compute", "*/ncu"),
)
"""Where NVIDIA's packages put it when it is not on the PATH: folders, and what to look for in them."""
ANSWER_S = 30.0
PARAMS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
CAP_SYS_ADMIN = 21

ONLY_ADMINISTRATORS = (
    "the driver gives hardware counters to administrators only: run as root (in a container with "
    "--cap-add=SYS_ADMIN), or let everybody have them with `options nvidia NVreg_RestrictProfilingToAdminUsers=0` "
    "in /etc/modprobe.d/ and the driver reloaded"
)
REFUSALS = (
    (r"ERR_NVGPUCTRPERM", ONLY_ADMINISTRATORS),
    (
        r"driver resource was unavailable",
        "another program holds the GPU's counters, often DCGM, or this machine does not hand them through: end the "
        "other profiler, pause DCGM with `dcgmi profile --pause`",
    ),
    (
        r"unrecogni[sz]ed option",
        "it lacks an option that is needed here: install a newer Nsight Compute",
    ),
    (
        r"[Ff]ailed to (?:find|lookup) metric",
        "it does not know a counter of this GPU: install a newer Nsight Compute",
    ),
    (
        r"lock file|InterprocessLockFailed",
        "its lock in the temporary folder belongs to another user: set TMPDIR to a folder of your own",
    ),
    (r"Failed to initialize the profiler", "its part in the driver cannot be used on this machine"),
)
"""What it says when it can count nothing at all, and what that means with the way out."""

ERROR = "==ERROR=="
CONSEQUENCES = ("The application returned an error", "An error occurred while trying to profile")
"""Errors that follow from another one, or from the program that runs under it."""


class NcuUnavailable(Exception):
    """Nsight Compute cannot count on this machine; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Ncu:
    """An installed Nsight Compute: its program, and its version as in `2025.3.1`."""

    path: str
    version: str

    @classmethod
    def find(cls) -> Ncu:
        """The one on the PATH, else the newest of NVIDIA's usual places.

        Raises:
            NcuUnavailable: there is none.
        """
        others = []
        for path in _candidates():
            said = _asked(path)
            # A package manager's updater has the same name, and a version, too.
            if version := re.search(r"Nsight Compute.*?Version (\d{4}(?:\.\d+)+)", said, re.DOTALL):
                return cls(path, ".".join(version[1].split(".")[:3]))
            others.append(path)
        instead = f" ({others[0]} is another program)" if others else ""
        raise NcuUnavailable(
            f"Nsight Compute's `ncu` is neither on the PATH nor where NVIDIA installs it{instead}: "
            f"it comes with the CUDA toolkit, or as the package nsight-compute"
        )

    @property
    def source(self) -> str:
        """What a figure's `source` says."""
        return f"Nsight Compute {self.version}"

    def command(self, metrics: Sequence[str], log: Path) -> tuple[str, ...]:
        """What to put before a command so that its kernels between cudaProfilerStart and -Stop are counted.

        The counts of each launch go to `log`, as CSV, when the command has ended. Clocks and caches are left as
        they are: what is counted is what ran, not a standardised machine.
        """
        return (
            *(self.path, "--target-processes", "all"),
            *("--profile-from-start", "off", "--graph-profiling", "node"),
            *("--clock-control", "none", "--cache-control", "none", "--nvtx"),
            *("--csv", "--page", "raw", "--print-units", "base"),
            *("--log-file", str(log), "--metrics", ",".join(metrics)),
        )

    def refusal(self, said: str) -> str | None:
        """Why it can count nothing, from all it printed; None where it does not say that."""
        for pattern, meaning in REFUSALS:
            if any(re.search(pattern, line) for line in _errors(said)):
                return f"{self.source}: {meaning}"
        return None

    def complaint(self, said: str) -> str | None:
        """The first errors it printed, other than that the program under it failed; None where there is none."""
        own = [line for line in _errors(said) if not line.startswith(CONSEQUENCES)]
        return f"{self.source}: {' '.join(own)[:300]}" if own else None


def forbidden(params: Path = PARAMS, status: Path = STATUS) -> str | None:
    """Why the driver will refuse counters to this process, as far as can be told before trying; else None."""
    try:
        restricted = re.search(r"^RmProfilingAdminOnly: 1$", params.read_text(), re.MULTILINE)
        held = re.search(r"^CapEff:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
    except OSError:
        return None
    may = held is not None and int(held[1], 16) >> CAP_SYS_ADMIN & 1
    return ONLY_ADMINISTRATORS if restricted and not may else None


def _candidates() -> Iterator[str]:
    if on_path := shutil.which("ncu"):
        yield on_path
    for folder, pattern in ELSEWHERE:
        found = sorted(Path(folder).glob(pattern), key=lambda path: _numbers(str(path)), reverse=True)
        yield from map(str, found)


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def _asked(path: str) -> str:
    """What the program prints of its version; nothing where it cannot be run."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _errors(said: str) -> list[str]:
    return [
        line.partition(ERROR)[2].strip()
        for line in said.splitlines()
        if ERROR in line and not line.startswith('"')  # a kernel's name may hold anything
    ]
