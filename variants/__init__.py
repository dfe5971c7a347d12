"""Ways to compute the stages of multi-head attention, one small file each.

Importing this package imports no torch: `shape`, `presets`, `work` and `stage` are plain Python, so that the
parent process and the command line's help stay fast. Variant files import torch themselves, when
`registry.discover` loads them.
"""
