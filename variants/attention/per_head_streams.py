"""attention/per_head_streams: the heads one by one, each on a CUDA stream of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from variants.attention._plain import attend
from variants.attention.per_head_loop import PerHeadLoop
from variants.streams import Fork
from variants.variant import Requires

if TYPE_CHECKING:
    import torch

    from variants.inputs import Weights


class PerHeadStreams(PerHeadLoop):
    """Faster than per_head_loop if one head leaves room for others; never if memory traffic or launches are the limit.

    Scores in memory, of as many heads at once as run side by side.
    """

    name = "per_head_streams"
    requires = Requires(device="cuda")
    aside = True

    def prepare(self, weights: Weights) -> None:
        """Build the causal mask, and make a stream a head."""
        super().prepare(weights)
        self.fork = Fork(self.shape.n_head)

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[torch.Tensor]:
        """n_head tensors [batch, seq_len, head_dim]."""
        heads = zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True)
        return self.fork.run(partial(attend, *head, self.future) for head in heads)
