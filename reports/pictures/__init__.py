"""Pictures for a README: one question each, drawn from a recorded run as SVG that is readable on light and on dark.

`tensor_use`, `calls` and `kernels` each make a `picture.Picture` of a run or say why there is none; `draw` writes them.
They need the extra `html` (Altair, and vl-convert that draws without a browser).
"""
