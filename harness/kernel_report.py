"""`doctor --kernels`: what the compiler made of our kernels, for every architecture they are written for."""

from __future__ import annotations

from kernels.compiler import KernelError, nvrtc_version
from kernels.inspect import Resources, catalogue, inspect, without_disassembler


def show() -> int:
    """Print a line per kernel, build and architecture; 1 if one spills registers or does not compile, else 0.

    Without NVRTC there is nothing to tell but what would install it, and that is no fault: 0.
    """
    try:
        major, minor = nvrtc_version()
    except KernelError as error:
        print(f"kernels cannot be compiled here: {error}")
        return 0
    faults = []
    for build in catalogue():
        print(build)
        try:
            found = inspect(build)
        except KernelError as error:
            faults.append(str(error))
            continue
        for resources in found:
            print(_line(resources), flush=True)
        faults += [_spill(resources) for resources in found if resources.spilled_bytes]
    if install := without_disassembler():
        print(f"no disassembler, so tensor instructions are not counted: {install}")
    for fault in faults:
        print(f"! {fault}")
    print(f"compiled with NVRTC {major}.{minor}: {len(faults) or 'no'} faults")
    return int(bool(faults))


def _line(found: Resources) -> str:
    tensor = found.tensor_instructions
    if tensor is None:
        instructions = "tensor instructions not counted"
    else:
        instructions = (
            ", ".join(f"{count} {name}" for name, count in tensor.items()) or "no tensor instructions"
        )
    return (
        f"  {found.kernel:<16}{found.architecture:<8}{found.registers:>4} registers{found.spilled_bytes:>6} B spilled"
        f"{found.shared_bytes:>8} B static shared memory  {instructions}"
    )


def _spill(found: Resources) -> str:
    return (
        f"{found.kernel} ({found.build}) spills {found.spilled_bytes} bytes a thread on {found.architecture}: "
        f"smaller tiles or fewer blocks on an SM give it registers"
    )
