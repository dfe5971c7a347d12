"""The models a run measures by default: one family of small GPTs, and one misfit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preset:
    """A named model: its width, its heads, its depth, its context, and where these figures come from."""

    name: str
    d_model: int
    n_head: int
    n_layer: int
    context: int
    source: str

    @property
    def head_dim(self) -> int:
        """Features per head."""
        return self.d_model // self.n_head


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("andrea-12m", 384, 12, 6, 1024, "head_dim from the lesson, the rest from its author's course"),
        Preset("andrea-120m", 768, 12, 12, 1024, "the lesson's model"),
        Preset("andrea-480m", 1536, 24, 16, 1024, "from the lesson's author's course"),
        Preset("head-dim-72", 864, 12, 12, 1024, "the lesson's misfit head_dim; width and depth are ours"),
    )
}
