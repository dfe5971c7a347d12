"""attention/sdpa_math_strided: sdpa_math on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.sdpa_math import SdpaMath


class SdpaMathStrided(SdpaMath):
    """Slower than sdpa_math by the copies its matmuls ask for: little beside scores in memory."""

    name = "sdpa_math_strided"
    arrives = "strided"
    aside = True
