"""From the launches of one call to its counters: counts added up, percentages weighted by the kernels' durations."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from harness.sensors.dispatch import LONGEST_NAME
from harness.sensors.ncu_csv import Uncounted
from harness.sensors.ncu_metrics import DRAM, DURATION, ELAPSED, OCCUPANCY, REGISTERS, SM_ACTIVE, WAVES
from results.figures import CountedKernel, Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.sensors.ncu_csv import Launch
    from harness.sensors.ncu_metrics import Chip

SCOPE = "this process, kernel by kernel"
FIGURES = 6
"""Without any of these there is one reason for all."""
LEAST_ACTIVE_PERCENT = 0.1
"""Below it a percentage with two decimals does not tell how many pipes the busy cycles are added up over."""
SURELY_ACTIVE_PERCENT = 1.0
"""Beyond it a pipe that executed nothing that is counted did something that is not."""


def counters(
    launches: Sequence[Launch], chip: Chip, flop_per_clock: Mapping[str, int], source: str
) -> Counters:
    """What these launches, at least one, of one call did; every figure that is not there has its reason.

    `flop_per_clock` is what the tensor cores of one SM can do in a cycle, by dtype.
    """
    call = _Call(launches, chip)
    missing: dict[str, str] = {}

    def told(field: str, figure: Callable[[], float]) -> float | None:
        try:
            return figure()
        except Uncounted as why:
            missing[field] = str(why)
            return None

    seen = Counters(
        tensor_active_percent=told("tensor_active_percent", call.active_percent),
        issued_flops=told("issued_flops", call.issued_flops),
        rate_while_active=told("rate_while_active", lambda: call.rate_while_active(flop_per_clock)),
        sm_active_percent=told("sm_active_percent", lambda: call.mean(SM_ACTIVE)),
        occupancy_percent=told("occupancy_percent", lambda: call.mean(OCCUPANCY)),
        dram_percent=told("dram_percent", lambda: call.mean(DRAM)),
        kernels=_kernels(launches, chip),
        missing=missing,
        source=source,
        scope=SCOPE,
    )
    if len(missing) < FIGURES:
        return seen
    return Counters(source=source, scope=SCOPE, reason=missing["tensor_active_percent"])


class _Call:
    """Figures of all launches of a call, or of one kernel of it. Each raises Uncounted where it is not known."""

    def __init__(self, launches: Sequence[Launch], chip: Chip) -> None:
        self._launches, self._chip = launches, chip

    def total(self, metric: str) -> float:
        return sum(launch.value(metric) for launch in self._launches)

    def duration_s(self) -> float:
        return sum(launch.value(DURATION, "ns") for launch in self._launches) * 1e-9

    def mean(self, metric: str) -> float:
        """A percentage, weighted by durations."""
        values = [launch.value(metric, "%") for launch in self._launches]
        if len(values) == 1:
            return values[0]
        weights = [launch.value(DURATION) for launch in self._launches]
        if not sum(weights):
            raise Uncounted("the kernels' durations, which weight it, are all 0")
        return sum(map(float.__mul__, values, weights)) / sum(weights)

    def active_percent(self) -> float:
        return self.mean(self._chip.active_percent)

    def issued_flops(self) -> float:
        """What the tensor cores executed, of all formats together."""
        issued = sum(self.total(each.metric) for each in self._chip.operations)
        if not issued and self.active_percent() >= SURELY_ACTIVE_PERCENT:
            raise Uncounted("the tensor pipe was busy with formats that are not counted here")
        return issued

    def rate_while_active(self, flop_per_clock: Mapping[str, int]) -> float:
        """The cycles that what was executed takes at full rate, over those in which the pipe was busy."""
        full_rate_cycles = 0.0
        for each in self._chip.operations:
            if executed := self.total(each.metric):
                if each.dtype is None or each.dtype not in flop_per_clock:
                    raise Uncounted(f"the peak that holds for {each.metric} is not known for this GPU")
                full_rate_cycles += executed / flop_per_clock[each.dtype]
        if not full_rate_cycles:
            raise Uncounted("no tensor instruction of a format that is counted ran")
        return full_rate_cycles * self._pipes() / self.total(self._chip.active_cycles)

    def _pipes(self) -> int:
        """How many pipes of an SM the busy cycles are added up over: a GPU's counter has one or four."""
        busiest = max(self._launches, key=lambda launch: launch.value(self._chip.active_cycles))
        percent = busiest.value(self._chip.active_percent, "%")
        if percent < LEAST_ACTIVE_PERCENT:
            raise Uncounted(
                f"the tensor pipe was busy for less than {LEAST_ACTIVE_PERCENT:g} % of the cycles"
            )
        active_cycles, elapsed = busiest.value(self._chip.active_cycles), busiest.value(ELAPSED)
        if not active_cycles or not elapsed:
            raise Uncounted(
                f"the counts contradict each other: {percent:g} % of {elapsed:g} cycles busy, "
                f"{active_cycles:g} busy cycles"
            )
        return round(active_cycles / (elapsed * percent / 100))


def _kernels(launches: Sequence[Launch], chip: Chip) -> tuple[CountedKernel, ...]:
    """Launches of one name together; the kernel that takes longest comes first."""
    of_name: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        of_name[launch.name[:LONGEST_NAME]].append(launch)
    kernels = [_kernel(name, of, chip) for name, of in of_name.items()]
    return tuple(sorted(kernels, key=lambda kernel: -(kernel.duration_s or 0.0)))


def _kernel(name: str, launches: Sequence[Launch], chip: Chip) -> CountedKernel:
    kernel, last = _Call(launches, chip), launches[-1]
    registers = _known(lambda: last.value(REGISTERS))
    return CountedKernel(
        name=name,
        launches=len(launches),
        duration_s=_known(kernel.duration_s),
        tensor_active_percent=_known(kernel.active_percent),
        issued_flops=_known(kernel.issued_flops),
        sm_active_percent=_known(lambda: kernel.mean(SM_ACTIVE)),
        dram_percent=_known(lambda: kernel.mean(DRAM)),
        registers=None if registers is None else int(registers),
        waves=_known(lambda: last.value(WAVES)),
    )


def _known(figure: Callable[[], float]) -> float | None:
    """A figure of one kernel, whose reason the call's own tells."""
    try:
        return figure()
    except Uncounted:
        return None
