"""A call in a CUDA graph, and PyTorch put right again where CUDA refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from harness.timers import Unmeasurable

if TYPE_CHECKING:
    from harness.timers import Call


def capture(call: Call) -> tuple[Call, object]:
    """`call`, which has run before, in a CUDA graph: what replays it, and the output each replay writes.

    Raises:
        Unmeasurable: CUDA refuses; the message is CUDA's.
    """
    torch.cuda.synchronize()
    stream = torch.cuda.current_stream()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            output = call()
    except Exception as error:  # whatever the call raises under capture is the reason
        _end_failed_capture(stream)
        raise Unmeasurable(f"cannot be captured in a CUDA graph: {_first_line(error)}") from error
    return graph.replay, output


def _end_failed_capture(stream: torch.cuda.Stream) -> None:
    """Undo what PyTorch leaves behind when a capture fails.

    The capture's own stream stays the current one, and the random generator goes on believing in the capture
    until another one succeeds.
    """
    torch.cuda.set_stream(stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
