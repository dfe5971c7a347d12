"""attention/per_head_loop_strided: per_head_loop on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.per_head_loop import PerHeadLoop


class PerHeadLoopStrided(PerHeadLoop):
    """Slower than per_head_loop if Q_h · K_hᵀ needs contiguous rows: here each lies 3 · d_model after another."""

    name = "per_head_loop_strided"
    arrives = "strided"
    aside = True
