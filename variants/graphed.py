"""A call in a CUDA graph of its own, as a user has it who wants no launches: captured before anything is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from variants.inputs import blank_activations
from variants.variant import Requires, Variant

if TYPE_CHECKING:
    from variants.inputs import Weights

WARM_UP_CALLS = 3
"""Before a capture, on another stream: libraries load and choose their kernels, which a capture forbids."""


class Graphed(Variant):
    """Put before a variant that takes and gives X [batch, seq_len, d_model], the same in a graph.

    The graph is captured once. A call copies X in, replays it, and gives its memory out: the next call overwrites it.
    So a caller pays for a copy and one launch.
    """

    requires = Requires(device="cuda")
    no_backward = "a replayed graph leaves autograd no history"

    def prepare(self, weights: Weights) -> None:
        """Arrange the weights as the other variant does, and capture its call."""
        super().prepare(weights)
        (self.x,) = blank_activations(self.stage, self.shape, self.arrives, weights.w_q.device)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_CALLS):
                super().call(self.x)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y: torch.Tensor = super().call(self.x)

    def call(self, x: torch.Tensor) -> torch.Tensor:
        """Y [batch, seq_len, d_model]."""
        self.x.copy_(x)
        self.graph.replay()
        return self.y
