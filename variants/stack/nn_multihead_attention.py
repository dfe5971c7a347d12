"""stack/nn_multihead_attention: PyTorch's own module in every layer."""

from __future__ import annotations

from variants.stack._repeated import Repeated
from variants.sublayer.nn_multihead_attention import NnMultiheadAttention as Layer


class NnMultiheadAttention(Repeated):
    """What PyTorch users write, a module a layer: its losses in one layer, n_layer times."""

    name = "nn_multihead_attention"
    aside = True
    layer = Layer
