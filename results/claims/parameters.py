"""C3: how many parameters attention has, and what share of the model that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Claim, Number, Part, Unit
from results.claims.lesson import D_MODEL, MODEL_PARAMETERS, N_LAYER
from results.claims.rules import exactly, missing, within

if TYPE_CHECKING:
    from results.claims.evidence import Evidence
    from results.claims.observed import Parameters

A_LAYER = 4 * D_MODEL**2
QUARTER = 0.25
ROUNDED = 0.05
"""`About a quarter` is 20 to 30 %, `three quarters` 70 to 80 %."""

SUBLAYER = "sublayer"


def parts(evidence: Evidence) -> list[Part]:
    """C3: from a model that was built, else from what the run says of a sublayer."""
    built = evidence.observed.parameters[-1:]
    if not built:
        return _recorded(evidence)
    (model,) = built
    return [
        exactly(
            model.attention / model.n_layer,
            A_LAYER,
            "attention parameters a layer",
            "a layer's W_Q, W_K, W_V and W_O of the model built hold {} parameters",
            f"a layer of the model built holds {{}}, not {A_LAYER:,}",
        ),
        *_shares(model.attention),
        _rest(model),
    ]


def _recorded(evidence: Evidence) -> list[Part]:
    counts = {
        one.record.parameters
        for place in evidence.places((), D_MODEL)
        for one in evidence.all_at(place)
        if one.record.case.stage == SUBLAYER
    }
    if not counts:
        return [missing("parameters of a model that was built", "to count them: python -m harness claims C3")]
    recorded = max(counts)
    about = "attention parameters a layer"
    fails = f"the run counts {{}} a layer, not {A_LAYER:,}"
    return [
        exactly(recorded, A_LAYER, about, "the run counts {} parameters in a layer's attention", fails),
        *_shares(recorded * N_LAYER),
        missing("MLP and embeddings as the rest", "to build a model: python -m harness claims C3"),
    ]


def _shares(attention: int) -> list[Part]:
    share = Number(attention / MODEL_PARAMETERS, Unit.SHARE)
    about = f"attention's share of {MODEL_PARAMETERS / 1e6:g} M"
    told = f"twelve layers hold {attention:,} of them, {{}} of 120 M"
    return [within(share, QUARTER - ROUNDED, QUARTER + ROUNDED, about, told, f"{told}: no quarter")]


def _rest(model: Parameters) -> Part:
    """The part that needs an assumption: what the other three quarters are made of."""
    whole = model.attention + model.mlp + model.embeddings
    share = Number(1 - model.attention / whole, Unit.SHARE)
    assumed = f"with an MLP {model.mlp_width:,} wide and a vocabulary of {model.vocabulary:,}, assumed here,"
    gated = whole + model.mlp // 2
    told = f"{assumed} MLP and embeddings are {{}} of {whole / 1e6:.1f} M"
    return within(
        share,
        1 - QUARTER - ROUNDED,
        1 - QUARTER + ROUNDED,
        "MLP and embeddings as the other three quarters, under assumptions",
        told,
        f"{told} (an MLP of three such matrices, as gated ones have, would make it {gated / 1e6:.1f} M)",
    )


C3 = Claim(
    "C3",
    "Attention parameters a layer: 4 × 768² = 2,359,296; twelve layers: about 28.3 M, about a quarter of ANDREA-120M; "
    "the other three quarters are MLP and embeddings.",
    "counts, exactly; a quarter is 20 to 30 %; the rest assumes an MLP of 4 × d_model and a vocabulary of 8,449",
    parts,
    trials=("parameters",),
)
