"""The directions a stage is computed in: forward, backward, or a training step, which is both."""

from __future__ import annotations

FORWARD, BACKWARD, STEP = "forward", "backward", "step"

DIRECTIONS = (FORWARD, BACKWARD, STEP)

USEFUL = {FORWARD: 1, BACKWARD: 2, STEP: 3}
"""Useful FLOPs over those of the forward: each product of it, A · B, has two in the backward, dA and dB. What a fused
attention computes again rather than keep is issued, not useful."""
