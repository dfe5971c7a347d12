"""Which signals end a command, and what is left of that afterwards."""

from __future__ import annotations

import signal

import pytest

from harness.signals import ENDING, ended_by_signals


@pytest.fixture(autouse=True)
def handlers():
    """What this process had, whatever a test does."""
    before = {one: signal.getsignal(one) for one in ENDING}
    yield before
    for one in ENDING:
        signal.signal(one, before[one])


@pytest.mark.parametrize("number", ENDING)
def test_the_first_signal_is_an_interrupt_and_any_other_is_ignored_until_the_block_ends(number):
    with ended_by_signals():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        for other in ENDING:
            signal.raise_signal(other)


def test_the_handlers_are_set_back_however_the_block_ends(handlers):
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert {one: signal.getsignal(one) for one in ENDING} == handlers


def test_what_is_ignored_already_stays_so():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ended_by_signals():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
