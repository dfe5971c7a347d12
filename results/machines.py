"""Which machine each run was measured on, for whoever sets times of several runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results.schema import Manifest

UUID_CHARACTERS = 12
"""Of a GPU's UUID, `GPU-687699b9-d866-…`: as many as tell the GPUs of a folder apart."""


def machine(manifest: Manifest) -> str:
    """`NVIDIA H200 GPU-687699b9`, or the CPU's name; empty where the run recorded neither."""
    gpu, cpu = (manifest.environment.get(key) or {} for key in ("gpu", "cpu"))
    uuid = str(gpu.get("uuid") or "")[:UUID_CHARACTERS]
    return " ".join(str(part) for part in (gpu.get("name"), uuid) if part) or str(cpu.get("name") or "")


def whence(manifests: Iterable[Manifest]) -> dict[str, str]:
    """What to call each run, by its id: the id, with its machine wherever these are several."""
    of_run = {manifest.run_id: machine(manifest) for manifest in manifests}
    several = len(set(of_run.values())) > 1
    return {run: f"{run} on {of or 'an unknown machine'}" if several else run for run, of in of_run.items()}
