"""sublayer/fused_graph: fused_sdpa in a CUDA graph of its own."""

from __future__ import annotations

from variants.graphed import Graphed
from variants.sublayer.fused_sdpa import FusedSdpa


class FusedGraph(Graphed, FusedSdpa):
    """Faster than fused_sdpa for a caller who waits for launches, by more than copying X into the graph costs."""

    name = "fused_graph"
    aside = True
