"""The sensor inside a process under Nsight Compute: one call, profiled, in an NVTX range that names its case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.sensors.ncu_csv import RANGE
from results.figures import Counters

if TYPE_CHECKING:
    from harness.timers import Call
    from results.figures import Figures


class NcuRange:
    """Numbers the calls it is given from 0 on. What was counted is not known here: Nsight Compute writes it at its end.

    Until then `source` of the counters is the name of the range.
    """

    step = "Nsight Compute"
    fields = ("counters",)
    reason: str | None = None

    def __init__(self) -> None:
        self._number = 0

    def sample(self, call: Call) -> dict[str, Figures]:
        """Call once; every kernel that it launches runs as often as the counters need.

        An NVTX range is one thread's, so gradients are computed in it rather than in autograd's own.
        """
        import torch

        name = RANGE.format(self._number)
        self._number += 1
        cuda: Any = torch.cuda
        nvtx, cudart = cuda.nvtx, cuda.cudart()
        torch.cuda.synchronize()
        cudart.cudaProfilerStart()
        nvtx.range_push(name)
        try:
            with torch.autograd.set_multithreading_enabled(False):
                call()
            torch.cuda.synchronize()
        finally:
            nvtx.range_pop()
            cudart.cudaProfilerStop()
        return {"counters": Counters(source=name)}

    def close(self) -> None:
        """Nothing is held between calls."""
