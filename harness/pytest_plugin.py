"""The `headbench` fixture: pytest-benchmark's reports, comparisons and storage on Headbench's times.

    def test_fused_projection(headbench):
        headbench(stage="qkv", variant="fused_qkv", head_dim=72, batch=32)

One case is measured in fresh processes, and each of them is one round: its median in the case's headline mode.
Every pytest session with pytest-benchmark imports this file: it imports nothing that costs until a test asks for
the fixture.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_headbench import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.headbench_fixture import Headbench
    from harness.plan import VariantFacts


class RoundClock:
    """A timer for pytest-benchmark that reads what was measured: 0 at a round's start, the round's time after it.

    Rounds are handed out in turns, so a profiler that calls once more than there are rounds finds one, too.
    """

    __name__ = "headbench"

    def __init__(self) -> None:
        self._now_s = 0.0
        self._rounds_s: Iterator[float] = itertools.repeat(0.0)

    def __call__(self) -> float:
        """Seconds."""
        return self._now_s

    def load(self, rounds_s: Sequence[float]) -> None:
        """The rounds to replay, in seconds."""
        self._rounds_s = itertools.cycle(rounds_s)

    def start(self) -> None:
        """Before a round."""
        self._now_s = 0.0

    def play(self) -> None:
        """The round."""
        self._now_s = next(self._rounds_s)


CLOCK = pytest.StashKey[RoundClock]()


class Measuring:
    """The fixture and its hooks; what is found out about the machine is kept for the session."""

    def __init__(self) -> None:
        self._looked: dict[
            tuple[str | None, tuple[Path, ...]], tuple[dict[str, Any], list[VariantFacts]]
        ] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Hand pytest-benchmark our timer, by its own marker, beside what the test's marker says."""
        for item in items:
            if "headbench" in getattr(item, "fixturenames", ()):
                said = item.get_closest_marker("benchmark")
                clock = item.stash[CLOCK] = RoundClock()
                options = {**(said.kwargs if said else {}), "timer": clock}
                item.add_marker(pytest.mark.benchmark(**options), append=False)

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Add the GPU, if a test has measured anything."""
        for environment, _ in list(self._looked.values())[:1]:
            self._add_facts(machine_info, environment)

    @pytest.hookimpl(tryfirst=True)
    def pytest_benchmark_compare_machine_info(
        self, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
    ) -> None:
        """Look at this machine before any test where it is compared with one that headbench measured on."""
        recorded = compared_benchmark.get("machine_info", {})
        if "headbench" in recorded:
            from harness.errors import HeadbenchError

            try:
                environment, _ = self.look(recorded.get("device"), ())
            except HeadbenchError:
                return  # that device is not here: pytest-benchmark warns that the machines differ
            self._add_facts(machine_info, environment)

    @pytest.fixture
    def headbench(self, request: pytest.FixtureRequest, benchmark: Any) -> Headbench:
        """A function that measures one case and hands the rounds to pytest-benchmark; see `Headbench.__call__`."""
        clock = request.node.stash.get(CLOCK, None)
        if clock is None:
            fail("the headbench fixture must be an argument of the test, or of a fixture that is one")
        if hasattr(request.config, "workerinput") and not request.config.getoption("benchmark_disable"):
            fail(
                "headbench measures one case at a time, and pytest-xdist runs several tests at once: "
                "add -n 0, or --benchmark-disable to verify without measuring"
            )
        from harness.__main__ import foreign_package

        if foreign := foreign_package():
            fail(HIDDEN.format(foreign[0]))
        from harness.headbench_fixture import Headbench

        marker = request.node.get_closest_marker("benchmark")
        rounds = marker.kwargs.get("min_rounds") or request.config.getoption("benchmark_min_rounds")
        return Headbench(self, benchmark, clock, rounds)

    def look(
        self, device: str | None, plugins: tuple[Path, ...]
    ) -> tuple[dict[str, Any], list[VariantFacts]]:
        """What `harness.probe.look` finds, once a session."""
        from harness.probe import look

        if (device, plugins) not in self._looked:
            self._looked[device, plugins] = look(device, plugins)
        return self._looked[device, plugins]

    def _add_facts(self, machine_info: dict[str, Any], environment: dict[str, Any]) -> None:
        from results.exchange import machine_facts

        machine_info.update(machine_facts(environment))


def fail(message: str) -> NoReturn:
    """Fail the test with this message alone."""
    pytest.fail(message, pytrace=False)
