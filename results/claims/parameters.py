"""C3: how many parameters attention has, and what share of the model that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.claims.claim import Claim, Number, Part, Unit
from results.claims.lesson import D_MODEL, MODEL_PARAMETERS, N_LAYER
from results.claims.rules import Statement, exactly, unasked, within

if TYPE_CHECKING:
    from results.claims.evidence import Evidence
    from results.claims.observed import Parameters

A_LAYER = 4 * D_MODEL**2
QUARTER = 0.25
ROUNDED = 0.05
"""`About a quarter` is 20 to 30 %, `three quarters` 70 to 80 %; and a model of 120 M has 114 to 126 M."""

SUBLAYER = "sublayer"


def parts(evidence: Evidence) -> list[Part]:
    """C3: from a model that was built, else from what the run says of a sublayer."""
    built = evidence.observed.parameters[-1:]
    if not built:
        return _recorded(evidence)
    (model,) = built
    return [_layer(model.attention / model.n_layer, "the model built"), _share(model.attention), _rest(model)]


def _recorded(evidence: Evidence) -> list[Part]:
    counts = {
        one.record.parameters
        for place in evidence.places((), D_MODEL)
        for one in evidence.all_at(place)
        if one.record.case.stage == SUBLAYER and one.record.parameters
    }
    if not counts:
        return [
            unasked("attention parameters a layer", "no model was built, and the run has no sublayer so wide")
        ]
    recorded = max(counts)
    rest = unasked("MLP and embeddings as the rest", "no model was built")
    return [_layer(recorded, "the run's sublayer"), _share(recorded * N_LAYER), rest]


def _layer(count: float, of: str) -> Part:
    told = f"attention of a layer of {of} has {{}} parameters"
    return exactly(
        count, A_LAYER, Statement("attention parameters a layer", told, f"{told}, not {A_LAYER:,}")
    )


def _share(attention: int) -> Part:
    share = Number(attention / MODEL_PARAMETERS, Unit.SHARE)
    told = f"twelve layers have {attention:,} of them, {{}} of {MODEL_PARAMETERS / 1e6:g} M"
    asked = Statement("attention's share of the model", told, f"{told}: no quarter")
    return within(share, QUARTER - ROUNDED, QUARTER + ROUNDED, asked)


def _rest(model: Parameters) -> Part:
    """The part that needs an assumption: what the other three quarters are made of.

    A model of another size than the one that is claimed of says nothing of its shares.
    """
    whole = model.attention + model.mlp + model.embeddings
    assumed = f"an MLP of two matrices {model.mlp_width:,} wide and a vocabulary of {model.vocabulary:,}"
    told = f"with {assumed}, our assumption, MLP and embeddings are {{}} of a model of {whole / 1e6:.1f} M"
    asked = Statement("MLP and embeddings as the other three quarters", told, told)
    found: Number | str = Number(1 - model.attention / whole, Unit.SHARE)
    if abs(whole / MODEL_PARAMETERS - 1) > ROUNDED:
        gated = whole + model.mlp // 2
        found = (
            f"the lesson does not say what they are; with {assumed}, our assumption, the model has {whole / 1e6:.1f} M "
            f"and is another; with three such matrices, as gated MLPs have, it has {gated / 1e6:.1f} M, of which MLP "
            f"and embeddings are {100 * (1 - model.attention / gated):.0f} %"
        )
    return within(found, 1 - QUARTER - ROUNDED, 1 - QUARTER + ROUNDED, asked)


C3 = Claim(
    "C3",
    "Attention parameters a layer: 4 × 768² = 2,359,296; twelve layers: about 28.3 M, about a quarter of ANDREA-120M; "
    "the other three quarters are MLP and embeddings.",
    "counts, exactly; a quarter is 20 to 30 %; the rest assumes an MLP of 4 × d_model and a vocabulary of 8,449, and "
    "is judged where that makes a model of 114 to 126 M",
    parts,
    experiments=("parameters",),
)
