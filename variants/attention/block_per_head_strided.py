"""attention/block_per_head_strided: block_per_head on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.block_per_head import BlockPerHead


class BlockPerHeadStrided(BlockPerHead):
    """As fast as block_per_head if a thread block's tile is read by rows, wherever they lie."""

    name = "block_per_head_strided"
    arrives = "strided"
    aside = True
