"""The `headbench` fixture: pytest-benchmark's reports, comparisons and storage on Headbench's times.

    def test_fused_projection(headbench):
        headbench(stage="qkv", variant="fused_qkv", head_dim=72, batch=32)

One case is measured in fresh processes, and each of them is one round: its median in the case's headline mode.
What pytest imports at every start is this file, so it imports nothing that costs until a test uses the fixture.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.one_case import Settings
    from harness.plan import VariantFacts
    from results.record import Record
    from results.run import Run


def pytest_configure(config: pytest.Config) -> None:
    """Offer the fixture: one that measures where pytest-benchmark is there, else one that says what is missing."""
    names = ("benchmark", "pytest_benchmark.plugin")
    present = any(config.pluginmanager.hasplugin(name) for name in names)
    plugin = Measuring() if present else WithoutBenchmark()
    config.pluginmanager.register(plugin, "headbench-fixture")


class WithoutBenchmark:
    """Stands in where pytest-benchmark is not installed or was switched off."""

    @pytest.fixture
    def headbench(self) -> None:
        """Fail with what to do."""
        pytest.fail(
            "the headbench fixture needs pytest-benchmark: pip install pytest-benchmark", pytrace=False
        )


class RoundClock:
    """A timer for pytest-benchmark that reads what was measured: 0 at a round's start, the round's time after it.

    Rounds are handed out in turns, so a profiler that calls once more than there are rounds finds one, too.
    """

    __name__ = "headbench"

    def __init__(self) -> None:
        self._now_s = 0.0
        self._rounds_s: Iterable[float] = itertools.repeat(0.0)

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
        self._now_s = next(iter(self._rounds_s))


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
            _fail("the headbench fixture must be an argument of the test, or of a fixture that is one")
        if hasattr(request.config, "workerinput") and not request.config.getoption("benchmark_disable"):
            _fail(
                "headbench measures one case at a time, and pytest-xdist runs several tests at once: "
                "add -n 0, or --benchmark-disable to verify without measuring"
            )
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

        machine_info |= machine_facts(environment)


class Headbench:
    """What the fixture gives a test; to be called once."""

    def __init__(self, session: Measuring, benchmark: Any, clock: RoundClock, rounds: int) -> None:
        self._session, self._benchmark, self._clock, self._rounds = session, benchmark, clock, rounds
        self._used = False

    @property
    def device(self) -> str:
        """`cpu` or `cuda:0`: what is measured unless the call says otherwise."""
        from harness.errors import HeadbenchError

        try:
            environment, _ = self._session.look(None, ())
        except HeadbenchError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        return str(environment["device"])

    def __call__(
        self,
        *,
        stage: str,
        variant: str,
        model: str | None = None,
        d_model: int | None = None,
        n_head: int | None = None,
        head_dim: int | None = None,
        batch: int | None = None,
        seq_len: int | None = None,
        mask: str | None = None,
        dtype: str | None = None,
        mode: str | None = None,
        device: str | None = None,
        replicates: int | None = None,
        budget_s: float | None = None,
        seed: int = 0,
        plugins: Sequence[str | Path] = (),
    ) -> Record:
        """Verify and measure the case, and return its record (times in seconds, sizes in bytes).

        Sizes mean what they mean to `run`; the model is andrea-120m unless told otherwise, batch the smaller
        default of the device. `replicates` is `--benchmark-min-rounds` (5), `mode` the first of isolated, eager
        and graph that has times, `budget_s` about nine seconds a replicate on a GPU and five on a CPU, most of
        which goes into starting processes. Under `--benchmark-disable` the case is verified in one process, and
        pytest-benchmark is told no time.

        A case that cannot be measured here skips the test, one that is wrong, crashes or hangs fails it.
        """
        __tracebackhide__ = True
        from harness.errors import HeadbenchError
        from harness.one_case import SHORTEST_S, Settings
        from harness.request import QUICK_MODEL, Selection

        if self._used:
            _fail("headbench was called twice: pytest-benchmark takes one benchmark a test")
        self._used = True
        measuring = self._benchmark.enabled
        try:
            selection = Selection(
                stages=(stage,),
                variants=(variant,),
                models=(model or QUICK_MODEL,),
                d_model=_given(d_model),
                n_head=_given(n_head),
                head_dim=_given(head_dim),
                batch=_given(batch),
                seq_len=_given(seq_len),
                masks=_given(mask),
                dtypes=_given(dtype),
            )
            settings = Settings(
                replicates=(self._rounds if replicates is None else replicates) if measuring else 1,
                budget_s=budget_s if measuring else SHORTEST_S,
                mode=mode,
                seed=seed,
                plugins=tuple(map(Path, plugins)),
            )
            return self._measure(selection, settings, device, measuring)
        except HeadbenchError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None

    def _measure(self, selection: Any, settings: Settings, device: str | None, measuring: bool) -> Record:
        from harness.one_case import measure_case

        environment, variants = self._session.look(device, settings.plugins)
        run = measure_case(selection, settings, environment, variants)
        (record,) = run.records()
        if not measuring:
            _judge(record)
            self._benchmark.pedantic(lambda: None)
        else:
            self._hand_over(run, record, _mode(record, settings.mode))
        return record

    def _hand_over(self, run: Run, record: Record, mode: str) -> None:
        from results.exchange import every_sample
        from results.medians import medians

        rounds_s = [one.value_s for one in medians(run.trials)[record.case][mode].values()]
        self._benchmark.extra_info.update(
            case=record.case.key,
            mode=mode,
            device=run.manifest.environment["device"],
            flags=list(record.flags),
            peak_delta_bytes=record.peak_delta_bytes,
            samples=every_sample(run.trials),
        )
        self._clock.load(rounds_s)
        self._benchmark.pedantic(self._clock.play, setup=self._clock.start, rounds=len(rounds_s))


def _mode(record: Record, wanted: str | None) -> str:
    """The mode whose medians are the rounds; skips or fails the test where there is none."""
    from harness.one_case import mode_of

    _judge(record)
    mode = mode_of(record, wanted)
    if mode is None:
        why = record.mode_reasons.get(wanted or "", "this device does not have it")
        pytest.skip(f"{record.case.key} has no {wanted or 'times'}: {why}")
    return mode


def _judge(record: Record) -> None:
    """Skip or fail the test unless the case is ok."""
    outcome = record.outcome
    if outcome is None or outcome.failed:
        _fail(f"{record.case.key} is {outcome or 'not measured'}: {record.reason}")
    if record.reason:
        pytest.skip(f"{outcome}: {record.reason}")


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _fail(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)
