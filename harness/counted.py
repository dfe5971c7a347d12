"""The process under Nsight Compute: each case of the job prepared and warm, then called once in a range of its own.

Nothing else of it is profiled. The parent learns which range is whose from the events, and what was counted from
the table that Nsight Compute writes when this process has ended.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path

import torch

from harness.ceilings import square_matmul
from harness.channel import Channel
from harness.device import open_device
from harness.observer import Observer
from harness.plan import group_cases
from harness.plugins import refusal
from harness.sensors.ncu_range import NcuRange
from harness.warm_call import WARM_UP_CALLS
from results.schema import Case
from variants.inputs import torch_dtype
from variants.registry import discover


def main() -> None:
    """The child: the job's cases, or its one matmul."""
    channel = Channel(die_with_parent=False)
    _end_with(channel.job["parent"])
    if why := refusal(channel.job["plugins"]):
        channel.send("refused", message=why)
        return
    with torch.inference_mode():
        device, state = open_device(channel.job)
        sensor = NcuRange()
        if size := channel.job["matmul_size"]:
            _matmul(size, device, sensor)
        registry = discover([Path(plugin["path"]) for plugin in channel.job["plugins"]])
        observer = Observer(channel, device, state, registry)
        for group in group_cases([Case(**case) for case in channel.job["cases"]]):
            observer.observe(group, sensor)
    channel.send("done")
    _end_without_threads()


def _end_with(parent: int) -> None:
    """End this process and the profiler around it when the run's own process ends, however it does."""
    handle = os.pidfd_open(parent)

    def wait() -> None:
        select.select([handle], [], [])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _end_without_threads() -> None:
    """Threads that a variant left running would keep this process, and with it everybody's counts, from their end."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(0)


def _matmul(size: int, device: torch.device, sensor: NcuRange) -> None:
    """[size, size] × [size, size] in bf16: what every tensor core does best, and what the doctor's GPM watches."""
    call = square_matmul(size, torch_dtype("bf16"), device)
    for _ in range(WARM_UP_CALLS):
        call()
    sensor.sample(call)


if __name__ == "__main__":
    main()
