"""What charts show, as content: points with their units unformatted. A renderer draws them and adds nothing.

`rates` is TFLOP/s against tokens or seq_len, `speedups` how each variant stands to its baseline, `calls` where an
eager call's time goes, `roofline` what the machine allows, `rivals` how our attention kernels stand to libraries,
`samples` every sample by replicate, `conditions` clocks, power and temperature over the run. What is drawn by head_dim
is `reports.pivot`'s, what is drawn of two runs `results.comparison`'s.
"""
