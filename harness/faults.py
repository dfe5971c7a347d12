"""What an exception from a variant means: an outcome and a reason in one line."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import torch

from kernels.compiler import CompilerMissing
from results.schema import Outcome
from variants.variant import Unsupported

HARNESS = Path(__file__).resolve().parent
OWN = (HARNESS.parent / "variants", HARNESS.parent / "kernels")
STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib")).resolve()
OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")
LONGEST_REASON = 300


def classify(error: BaseException) -> tuple[Outcome, str]:
    """The outcome of a case that raised, and why."""
    if isinstance(error, Unsupported):
        return Outcome.UNSUPPORTED, one_line(error) or f"the variant does not say why{_place(error)}"
    if isinstance(error, CompilerMissing):
        return Outcome.UNAVAILABLE, one_line(error)
    if is_out_of_memory(error):
        return Outcome.OUT_OF_MEMORY, one_line(error) or "the system refused the memory asked for"
    if isinstance(error, SystemExit):
        code = 0 if error.code is None else one_line(error)
        return Outcome.CRASHED, f"ended the process with exit code {code}{_place(error)}"
    said = one_line(error)
    return Outcome.CRASHED, f"raised {type(error).__name__}{': ' if said else ''}{said}{_place(error)}"


def why_survived(error: BaseException) -> str:
    """The reason of an error that costs no more than what raised it.

    Raises:
        BaseException: the error itself, where the context is lost.
    """
    if is_fatal(error):
        raise error
    return classify(error)[1]


def is_fatal(error: BaseException) -> bool:
    """Whether this process's CUDA context is lost, so that nothing after it can be believed."""
    if is_out_of_memory(error):
        return False
    return isinstance(error, torch.AcceleratorError) or "CUDA error" in _text(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation was refused, on the GPU or on the host."""
    words = _text(error).lower()
    return isinstance(error, MemoryError) or any(word in words for word in OUT_OF_MEMORY_WORDS)


def one_line(error: BaseException) -> str:
    """The first lines of the message, folded into one of bounded length."""
    text = " ".join(_text(error).split())
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def _text(error: BaseException) -> str:
    """Its message; an exception is foreign code, too, and may fail to give one."""
    try:
        return str(error)
    except Exception:
        return ""


def _place(error: BaseException) -> str:
    """Where it was raised, outside the harness and libraries: the line a variant's author wants to see."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if _is_a_variants(Path(f.filename).resolve())
    ]
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _is_a_variants(file: Path) -> bool:
    if any(map(file.is_relative_to, OWN)):
        return True  # wherever headbench itself is installed
    in_library = file.is_relative_to(STANDARD_LIBRARY) or {"site-packages", "dist-packages"} & {*file.parts}
    return not file.is_relative_to(HARNESS) and not in_library
