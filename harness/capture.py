"""A call in a CUDA graph, and PyTorch put right again where CUDA refuses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from harness.gpu import Captured
from harness.nested import mapped
from harness.timers import Unmeasurable
from kernels.messages import first_line

if TYPE_CHECKING:
    from harness.timers import Call


def capture(call: Call, times: int = 1) -> Captured:
    """`call`, which has run before, in a CUDA graph, `times` times one after the other.

    Where the call has a `before` (a backward's forward), that is captured first, in a graph of its own: autograd
    computes a gradient on the stream on which the forward ran, and reads what the forward saved at its addresses.

    Raises:
        Unmeasurable: CUDA refuses; the message is CUDA's.
    """
    torch.cuda.synchronize()
    stream = torch.cuda.current_stream()
    before: Call | None = getattr(call, "before", None)
    graph, first = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph() if before else None
    try:
        if before and first:
            with torch.cuda.graph(first):
                before()
        with torch.cuda.graph(graph, pool=first.pool() if first else None):
            for _ in range(times):
                output = call()
    except Exception as error:  # whatever the call raises under capture is the reason
        _end_failed_capture(stream)
        if before:
            before()
        raise Unmeasurable(f"cannot be captured in a CUDA graph: {first_line(error)}") from error
    # Without its record of gradients, which would keep what they were taken from.
    output = mapped(torch.Tensor.detach, output)
    if before and first:
        first.replay()
        before()  # outside its graph the call goes on, on this stream
    return Captured(graph.replay, output, first.replay if first else None)


def _end_failed_capture(stream: torch.cuda.Stream) -> None:
    """Undo what PyTorch leaves behind when a capture fails.

    The capture's own stream stays the current one, and the random generator goes on believing in the capture
    until another one succeeds.
    """
    torch.cuda.set_stream(stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")
