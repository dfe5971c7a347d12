"""The child of `doctor --kernels`: compiles every kernel for every architecture and tells what became of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from harness.channel import Channel
from kernels.compiler import KernelError, nvrtc_version
from kernels.inspect import Resources, catalogue, inspect, without_disassembler


def main() -> None:
    """Answer with events: what compiles here, or why nothing does; then each build's kernels, or its fault."""
    channel = Channel()
    try:
        version = nvrtc_version()
    except KernelError as error:
        channel.send("compiler", nvrtc=None, reason=str(error))
    else:
        channel.send("compiler", nvrtc=version, no_disassembler=without_disassembler())
        _tell_builds(channel)
    channel.send("done")


def _tell_builds(channel: Channel) -> None:
    with ThreadPoolExecutor() as pool:
        for build, inspected in [(build, pool.submit(inspect, build)) for build in catalogue()]:
            try:
                channel.send("build", name=str(build), found=[_facts(one) for one in inspected.result()])
            except KernelError as error:
                channel.send("fault", name=str(build), reason=str(error))


def _facts(found: Resources) -> dict[str, object]:
    return {
        "kernel": found.kernel,
        "architecture": found.architecture,
        "registers": found.registers,
        "spilled_bytes": found.spilled_bytes,
        "shared_bytes": found.shared_bytes,
        "tensor_instructions": found.tensor_instructions,
        "waits": found.waits,
    }


if __name__ == "__main__":
    main()
