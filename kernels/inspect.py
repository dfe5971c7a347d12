"""What the compiler made of the kernels, for every architecture, without a GPU: registers, spills, instructions."""

from __future__ import annotations

import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernels import block_per_head, flash_hopper, flash_portable, qkv_headmajor, relayout
from kernels.compiler import Binary, Build, KernelError, compile_for, find

if TYPE_CHECKING:
    from collections.abc import Iterator

_FUNCTION = re.compile(r"Compiling entry function '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_TENSOR = re.compile(r"\b(HMMA|HGMMA)\.")
_WAITS = re.compile(r"\(C75\d\d\) (.*\bwgmma\b.*\b(?:serialized|injected)\b.*)")
_DISASSEMBLER = "pip install 'nvidia-cuda-nvdisasm==13.*'"


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes on one architecture.

    `stack_bytes` and `spilled_bytes` are of each thread's slow local memory, `shared_bytes` the block's static shared
    memory (dynamic memory is the launch's to say). `tensor_instructions` are counts in the machine code, HMMA and
    HGMMA; None if there is no disassembler. `waits` is what the assembler says of products (wgmma) of the build that it
    could not leave under way: it made each wait for the one before, or put in a wait of its own.
    """

    kernel: str
    build: Build
    architecture: str
    registers: int
    stack_bytes: int
    spilled_bytes: int
    shared_bytes: int
    tensor_instructions: dict[str, int] | None
    waits: tuple[str, ...]


def catalogue() -> Iterator[Build]:
    """Every kernel here, at the sizes that are measured."""
    yield Build(find("timing"))
    yield from block_per_head.builds()
    yield from flash_portable.builds()
    yield from flash_hopper.builds()
    yield from qkv_headmajor.builds()
    yield from relayout.builds()


def inspect(build: Build) -> list[Resources]:
    """The build's kernels on each of its architectures.

    Raises:
        KernelError: NVRTC cannot be used, or it refuses the source.
    """
    with (
        ThreadPoolExecutor() as pool
    ):  # NVRTC releases Python's lock, the disassembler is a process of its own
        binaries = list(pool.map(partial(compile_for, build), build.architectures))
        counts = pool.map(_tensor_instructions, (binary.cubin for binary in binaries))
        return [
            resources
            for arch, binary, of_binary in zip(build.architectures, binaries, counts, strict=True)
            for resources in _resources(build, arch, binary, of_binary)
        ]


def _resources(
    build: Build, arch: str, binary: Binary, counts: dict[str, dict[str, int]] | None
) -> Iterator[Resources]:
    for kernel, report in _reports(binary.log):
        stack, stored, loaded = map(int, _first(_SPILLS, report, build))
        shared = _SHARED.search(report)
        yield Resources(
            kernel=kernel,
            build=build,
            architecture=arch,
            registers=int(_first(_USED, report, build)[0]),
            stack_bytes=stack,
            spilled_bytes=max(stored, loaded),
            shared_bytes=int(shared[1]) if shared else 0,
            tensor_instructions=None if counts is None else counts.get(kernel, {}),
            waits=tuple(_WAITS.findall(binary.log)),
        )


def without_disassembler() -> str | None:
    """What installs a disassembler, or None if there is one."""
    return None if _disassembler() else _DISASSEMBLER


def _reports(log: str) -> Iterator[tuple[str, str]]:
    """The assembler's report by kernel."""
    _, *parts = _FUNCTION.split(log)
    return zip(parts[::2], parts[1::2], strict=True)


def _first(pattern: re.Pattern[str], report: str, build: Build) -> tuple[str, ...]:
    match = pattern.search(report)
    if match is None:
        raise KernelError(
            f"{build}: the assembler reports nothing like {pattern.pattern!r}: {report.strip()}"
        )
    return match.groups()


def _tensor_instructions(cubin: bytes) -> dict[str, dict[str, int]] | None:
    """By kernel, how often each tensor-core instruction stands in its machine code."""
    disassembler = _disassembler()
    if disassembler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        # Instructions are counted, so an analysis of where they branch to would be time lost.
        command = [disassembler, "--print-code", "--no-dataflow", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelError(f"{disassembler} fails: {done.stderr.strip()}")
    counts: dict[str, dict[str, int]] = {}
    _, *parts = re.split(r"^\.text\.(\w+):$", done.stdout, flags=re.MULTILINE)
    for kernel, code in zip(parts[::2], parts[1::2], strict=True):
        names = _TENSOR.findall(code)
        counts[kernel] = {name: names.count(name) for name in dict.fromkeys(names)}
    return counts


def _disassembler() -> str | None:
    """The path of nvdisasm: from a Python package, a CUDA toolkit or the PATH."""
    from cuda.pathfinder import find_nvidia_binary_utility

    found = find_nvidia_binary_utility("nvdisasm")
    return str(found) if found else None
