"""What an exception from a variant means: an outcome and a reason in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

from results.schema import Outcome
from variants.variant import Unsupported

HARNESS = Path(__file__).resolve().parent
OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "alloc_failed")
LONGEST_REASON = 300


def classify(error: BaseException) -> tuple[Outcome, str]:
    """The outcome of a case that raised, and why."""
    if isinstance(error, Unsupported):
        return Outcome.UNSUPPORTED, one_line(error)
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in OUT_OF_MEMORY_WORDS):
        return Outcome.OUT_OF_MEMORY, one_line(error) or "the system refused the memory asked for"
    if isinstance(error, SystemExit):
        return Outcome.CRASHED, f"ended the process with exit code {error.code}{_place(error)}"
    said = one_line(error)
    return Outcome.CRASHED, f"raised {type(error).__name__}{': ' if said else ''}{said}{_place(error)}"


def is_fatal(error: BaseException) -> bool:
    """Whether this process's CUDA context is lost, so that nothing after it can be believed."""
    if isinstance(error, torch.OutOfMemoryError):
        return False
    return isinstance(error, torch.AcceleratorError) or "CUDA error" in str(error)


def one_line(error: BaseException) -> str:
    """The first lines of the message, folded into one of bounded length."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def _place(error: BaseException) -> str:
    """Where it was raised, outside the harness: the line a variant's author wants to see."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve().parent != HARNESS
    ]
    variant_frames = [f for f in frames if "site-packages" not in f.filename]
    return (
        f" ({Path(variant_frames[-1].filename).name}:{variant_frames[-1].lineno})" if variant_frames else ""
    )
