"""stack/fused_graph: fused_sdpa's whole stack in one CUDA graph."""

from __future__ import annotations

from variants.graphed import Graphed
from variants.stack.fused_sdpa import FusedSdpa


class FusedGraph(Graphed, FusedSdpa):
    """Faster than fused_sdpa by the launches of all layers, for one copy of X: what a model at batch 1 waits for."""

    name = "fused_graph"
