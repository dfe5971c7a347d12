"""What the `headbench` fixture gives a test: one call that measures a case and hands its rounds to pytest-benchmark.

Imported only by a session with a test that asks for it; the hooks are in `pytest_plugin`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import HeadbenchError
from harness.fixture_arguments import check
from harness.one_case import SHORTEST_S, Settings, measure_case, mode_of
from harness.pytest_plugin import fail
from harness.request import QUICK_MODEL, Selection
from results.exchange import every_sample
from results.medians import medians
from results.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.pytest_plugin import Measuring, RoundClock
    from results.record import Record
    from results.run import Run


class Headbench:
    """What the fixture gives a test; to be called once."""

    def __init__(self, session: Measuring, benchmark: Any, clock: RoundClock, rounds: int) -> None:
        self._session, self._benchmark, self._clock, self._rounds = session, benchmark, clock, rounds
        self._used = False

    @property
    def device(self) -> str:
        """`cpu` or `cuda:0`: what is measured unless the call says otherwise."""
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
        n_layer: int | None = None,
        batch: int | None = None,
        seq_len: int | None = None,
        mask: str | None = None,
        dtype: str | None = None,
        direction: str | None = None,
        mode: str | None = None,
        device: str | None = None,
        replicates: int | None = None,
        budget_s: float | None = None,
        seed: int = 0,
        plugins: Sequence[str | Path] = (),
    ) -> Record:
        """Verify and measure the case, and return its record (times in seconds, sizes in bytes).

        Sizes and `direction` mean what they mean to `run`; the model is andrea-120m unless told otherwise, batch the
        smaller default of the device. `replicates` is `--benchmark-min-rounds` (5), `mode` the first of isolated, eager
        and graph that has times, `budget_s` about nine seconds a replicate on a GPU and five on a CPU, most of
        which goes into starting processes. Under `--benchmark-disable` the case is verified in one process, and
        pytest-benchmark is told no time.

        A case that cannot be measured here skips the test, one that is wrong, crashes or hangs fails it.
        """
        __tracebackhide__ = True
        given = locals()
        if self._used:
            fail("headbench was called twice: pytest-benchmark takes one benchmark a test")
        self._used = True
        measuring = self._benchmark.enabled
        try:
            check(given)
            selection = Selection(
                stages=(stage,),
                variants=(variant,),
                models=(model or QUICK_MODEL,),
                d_model=_given(d_model),
                n_head=_given(n_head),
                head_dim=_given(head_dim),
                n_layer=_given(n_layer),
                batch=_given(batch),
                seq_len=_given(seq_len),
                masks=_given(mask),
                dtypes=_given(dtype),
                directions=_given(direction),
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

    def _measure(
        self, selection: Selection, settings: Settings, device: str | None, measuring: bool
    ) -> Record:
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
        fail(f"{record.case.key} is {outcome or 'not measured'}: {record.reason}")
    if outcome is not Outcome.OK:
        pytest.skip(f"{outcome}: {record.reason}")


def _given(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)
