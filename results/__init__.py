"""Stored runs: the schema, the append-only store, statistics and pandas frames. Knows no torch.

import results
run = results.read("results/runs/…")
run.frame()     # a row per case
run.samples()   # a row per sample
"""

from results.store import Run, StoreError, read

__all__ = ["Run", "StoreError", "read"]
