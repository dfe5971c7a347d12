"""Compile device code with NVRTC, for any architecture: no GPU, no driver and no CUDA toolkit are needed.

NVRTC and the CUDA headers come from Python packages: PyTorch's CUDA builds bring them, elsewhere
`pip install 'cuda-toolkit[nvrtc,cudart]==13.*'` does.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kernels.messages import first_line

FOLDER = Path(__file__).parent
ARCHITECTURES = ("sm_80", "sm_89", "sm_90a")
"""What the kernels here are written for: A100, RTX 4090, H100 and H200."""

_OPTIONS = ("-std=c++17", "-ftz=true", "-Xptxas=-v")
_INCLUDE = re.compile(r'^[ \t]*#include "([^"]+)"[ \t]*$', re.MULTILINE)
_MACRO = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(=[^\n]*)?")
_INSTALL = "pip install 'cuda-toolkit[nvrtc,cudart]==13.*' cupy-cuda13x"


class KernelError(RuntimeError):
    """Device code could not be compiled, launched or inspected; the message says what would help."""


class CompilerMissing(KernelError):
    """There is no CuPy or no NVRTC on this machine: no fault of any kernel."""


@dataclass(frozen=True, slots=True)
class Build:
    """One compilation: a `.cu` file, the macros it is compiled with (`HEAD_DIM=64`), and for which GPUs."""

    file: Path
    defines: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ARCHITECTURES

    def __str__(self) -> str:
        return " ".join((self.file.name, *self.defines))


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code of one build for one architecture, and what the assembler reported of it."""

    cubin: bytes
    log: str


def find(source: str | Path) -> Path:
    """The file of a kernel of this folder by its name, or the path of anybody's `.cu` file.

    Raises:
        KernelError: there is no such file.
    """
    file = FOLDER / f"{source}.cu" if isinstance(source, str) and not source.endswith(".cu") else Path(source)
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.cu")))
        raise KernelError(f"{file} is not a file: a path ending in .cu would do, or one of {known}")
    return file


def architecture(capability: tuple[int, int]) -> str:
    """NVRTC's name of a compute capability; Hopper's with the `a` that `wgmma` and `setmaxnreg` need."""
    suffix = "a" if capability == (9, 0) else ""
    return f"sm_{capability[0]}{capability[1]}{suffix}"


def compile_for(build: Build, arch: str) -> Binary:
    """The build's machine code, from the cache on disk if the same text was compiled with the same options.

    Raises:
        KernelError: a macro is none, the source is no text, NVRTC cannot be used, or it refuses the source; its log is
            in the message.
    """
    for define in build.defines:
        if not (isinstance(define, str) and _MACRO.fullmatch(define)):
            raise KernelError(
                f"{build.file.name}: {define!r} is no macro: a string like 'HEAD_DIM=64' would do"
            )
    text = with_includes(build.file)
    options = (f"-arch={arch}", *_OPTIONS, *(f"-D{define}" for define in build.defines))
    key = hashlib.sha256(repr((text, options, nvrtc_version())).encode()).hexdigest()[:32]
    cached = _cache_folder() / f"{build.file.stem}-{arch}-{key}"
    with suppress(OSError):
        return Binary(
            cached.with_suffix(".cubin").read_bytes(), cached.with_suffix(".log").read_text("utf-8")
        )
    binary = _compile(text, build, options)
    with suppress(OSError):  # a cache that cannot be written costs time, and nothing else
        _write(cached.with_suffix(".log"), binary.log.encode())
        _write(cached.with_suffix(".cubin"), binary.cubin)
    return binary


def with_includes(file: Path) -> str:
    """The source with each `#include "…"` of a file beside it replaced by that file's text, once.

    So the text alone tells what is compiled, to the cache too. `#include <…>` is left to NVRTC.
    """
    return _with_includes(file, set())


def _with_includes(file: Path, seen: set[Path]) -> str:
    def replaced(match: re.Match[str]) -> str:
        path = file.parent / match[1]
        if path in seen:
            return ""
        if not path.is_file():
            raise KernelError(f'{file} includes "{match[1]}", which is not beside it')
        seen.add(path)
        line = text.count("\n", 0, match.start()) + 2
        return f'#line 1 "{path.name}"\n{_with_includes(path, seen)}\n#line {line} "{file.name}"'

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KernelError(f"{file} cannot be read: {error}") from error
    return _INCLUDE.sub(replaced, text)


@functools.cache
def nvrtc_version() -> tuple[int, int]:
    """NVRTC's version.

    Raises:
        CompilerMissing: CuPy or NVRTC is missing.
    """
    try:
        from cupy.cuda import nvrtc

        major, minor = nvrtc.getVersion()
    except Exception as error:  # a missing library shows as ImportError, RuntimeError or CuPy's own types
        # CUDA's finder repeats itself for every name that it tried.
        said = first_line(error).partition(": No such file")[0]
        raise CompilerMissing(f"NVRTC cannot be used ({said}): {_INSTALL}") from error
    return int(major), int(minor)


def _compile(text: str, build: Build, options: tuple[str, ...]) -> Binary:
    import cupy
    from cupy.cuda import nvrtc

    toolkit = cupy.cuda.get_cuda_path()
    headers = (f"-I{toolkit}/include",) if toolkit else ()
    program = nvrtc.createProgram(text, build.file.name, (), ())
    try:
        nvrtc.compileProgram(program, (*options, *headers))
        # CuPy drops the last byte, which is part of the file's section headers.
        return Binary(bytes(nvrtc.getCUBIN(program)) + b"\0", str(nvrtc.getProgramLog(program)))
    except nvrtc.NVRTCError as error:
        log = str(nvrtc.getProgramLog(program)).strip() or str(error)
        raise KernelError(f"{build} does not compile with {options[0]}: {log}") from error
    finally:
        nvrtc.destroyProgram(program)


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headbench" / "kernels"


def _write(file: Path, content: bytes) -> None:
    """Another process may read or write the same file: it appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as partial:
        partial.write(content)
    Path(partial.name).replace(file)
