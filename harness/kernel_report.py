"""`doctor --kernels`: what the compiler made of our kernels, for every architecture they are written for.

A child compiles (`compiling.py`): kernels' files import torch, which this process does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.child import Child
from harness.errors import HeadbenchError
from harness.following import follow
from harness.probe import START_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def show() -> int:
    """Print a line per kernel, build and architecture, and one per fault; 1 if there is a fault, else 0.

    A fault is a kernel that does not compile, spills registers, or has a product that the compiler makes wait.

    Without NVRTC there is nothing to tell but what would install it, and that is no fault: 0.

    Raises:
        HeadbenchError: the compiler takes its process along.
    """
    compiler: dict[str, Any] = {}
    faults: list[str] = []

    def tell(event: dict[str, Any]) -> None:
        match event["event"]:
            case "compiler":
                compiler.update(event)
            case "fault":
                faults.append(event["reason"])
            case "build":
                print(event["name"], *map(_line, event["found"]), sep="\n", flush=True)
                for one in event["found"]:
                    faults.extend(_faults(event["name"], one))

    with Child("harness.compiling", {}, START_S) as child:
        ended = follow(child, START_S, None, tell)
    if ended:
        raise HeadbenchError(f"kernels cannot be compiled here: {ended.reason}")
    return _conclude(compiler, faults)


def _conclude(compiler: Mapping[str, Any], faults: list[str]) -> int:
    if compiler["nvrtc"] is None:
        print(f"kernels cannot be compiled here: {compiler['reason']}")
        return 0
    if install := compiler["no_disassembler"]:
        print(f"no disassembler, so tensor instructions are not counted: {install}")
    for fault in faults:
        print(f"! {fault}")
    major, minor = compiler["nvrtc"]
    print(
        f"compiled with NVRTC {major}.{minor}: {len(faults) or 'no'} {'fault' if len(faults) == 1 else 'faults'}"
    )
    return int(bool(faults))


def _line(found: Mapping[str, Any]) -> str:
    tensor = found["tensor_instructions"]
    if tensor is None:
        instructions = "tensor instructions not counted"
    else:
        counted = (f"{count} {name}" for name, count in tensor.items())
        instructions = ", ".join(counted) or "no tensor instructions"
    return (
        f"  {found['kernel']:<16}{found['architecture']:<8}{found['registers']:>4} registers"
        f"{found['spilled_bytes']:>6} B spilled{found['shared_bytes']:>8} B static shared memory  {instructions}"
    )


def _faults(build: str, found: Mapping[str, Any]) -> Iterator[str]:
    who, where = f"{found['kernel']} ({build})", f"on {found['architecture']}"
    if spilled := found["spilled_bytes"]:
        yield (
            f"{who} spills {spilled} bytes a thread {where}: "
            f"smaller tiles or fewer blocks on an SM give it registers"
        )
    for told in found["waits"]:
        yield f"{who} has tensor-core products that wait for each other {where}: {told}"
