"""The thirteen claims by id, in the lesson's order."""

from results.claims.blocks import C9
from results.claims.claim import Claim
from results.claims.heads import C4, C5
from results.claims.parameters import C3
from results.claims.projections import C1, C2
from results.claims.specialised import C6, C7
from results.claims.steps import C13
from results.claims.strides import C8
from results.claims.tiles import C10, C11, C12

CLAIMS: dict[str, Claim] = {
    claim.id: claim for claim in (C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13)
}
