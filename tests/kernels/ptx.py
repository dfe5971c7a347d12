"""PTX, the text between CUDA C++ and machine code: what tests read off it without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.compiler import with_includes

if TYPE_CHECKING:
    from kernels.compiler import Build


def ptx_of(build: Build) -> str:
    """A build's, for Hopper."""
    import cupy
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(with_includes(build.file), build.file.name, (), ())
    headers = f"-I{cupy.cuda.get_cuda_path()}/include"
    defines = (f"-D{define}" for define in build.defines)
    nvrtc.compileProgram(program, ("-arch=compute_90a", "-std=c++17", headers, *defines))
    ptx = nvrtc.getPTX(program)
    return ptx.decode() if isinstance(ptx, bytes) else ptx
