"""attention/materialized_strided: materialized on heads as a stride of one fused buffer."""

from __future__ import annotations

from variants.attention.materialized import Materialized


class MaterializedStrided(Materialized):
    """Slower than materialized where batch and heads are no single stride: their common product is fed copies."""

    name = "materialized_strided"
    arrives = "strided"
    aside = True
