"""The model that the lesson's claims are about."""

D_MODEL, N_HEAD, N_LAYER = 768, 12, 12
"""ANDREA-120M: width, heads, depth."""

MODEL_PARAMETERS = 120e6
"""What its name says."""
