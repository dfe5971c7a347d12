"""stack/composed: the fastest variant of each stage, one after the other, in every layer."""

from __future__ import annotations

from variants.stack._repeated import Repeated
from variants.sublayer.composed import Composed as Layer


class Composed(Repeated):
    """The fastest stack without a graph, if the fastest layer is one."""

    name = "composed"
    aside = True
    layer = Layer
