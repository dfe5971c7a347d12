"""output/strided_matmul: one matmul with W_O on heads that lie side by side already."""

from __future__ import annotations

from variants.output.concat_matmul import ConcatMatmul


class StridedMatmul(ConcatMatmul):
    """Faster than concat_matmul by the copy that it lacks: attention that writes [batch, seq_len, n_head, head_dim]."""

    name = "strided_matmul"
    arrives = "strided"
