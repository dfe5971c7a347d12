"""Following a child: what it says in hand, what it sends, and how it ends."""

from __future__ import annotations

import pytest

from harness.errors import HeadbenchError
from harness.following import follow
from results.schema import Outcome
from tests.results.builders import case


class Scripted:
    """A child whose events are known; `exit_code` is how it ended."""

    silence_s = 0.0

    def __init__(self, *events, exit_code=1):
        self._events, self.exit_code = events, exit_code

    def events(self):
        yield from self._events

    def how_it_ended(self):
        return f"ended with exit code {self.exit_code}"


def begin(of=None, step="verify"):
    return {"event": "begin", "group": case().group, "case": of and of.key, "step": step}


def test_a_child_that_is_done_is_no_fault_and_what_it_sends_comes_in_order():
    told = []
    child = Scripted(begin(), {"event": "trial", "n": 1}, {"event": "trial", "n": 2}, {"event": "done"})
    assert follow(child, 60.0, None, told.append) is None
    assert [event["n"] for event in told] == [1, 2]


def test_a_child_that_dies_had_its_last_case_in_hand():
    fault = follow(Scripted(begin(), begin(case("a")), begin(case("b"), "graph")), 60.0, None, lambda _: None)
    assert fault.outcome is Outcome.CRASHED
    assert fault.in_hand.holds(case("b"))
    assert not fault.in_hand.holds(case("a"))
    assert fault.during == "the worker ended with exit code 1, during graph"
    assert not fault.killed


def test_what_a_group_shares_is_every_case_of_its_and_may_take_longer():
    child = Scripted(begin(), exit_code=-9)
    fault = follow(child, 1.0, None, lambda _: None)
    assert fault.in_hand.holds(case("a"))
    assert not fault.in_hand.holds(case("a", batch=32))
    assert fault.killed
    assert child.silence_s > 1.0


@pytest.mark.parametrize("event", [{"event": "begin"}, {"event": "trial"}, {"event": "trial", "trial": 3}])
def test_another_versions_words_are_one_message(event):
    def handle(sent):
        int(sent["trial"]["replicate"])

    with pytest.raises(HeadbenchError, match="answers in words that this headbench cannot read"):
        follow(Scripted({"event": "ready", "trial": {"replicate": 0}}, event), 60.0, None, handle)


def test_a_child_that_refuses_its_job_is_believed():
    refused = {"event": "refused", "message": "plugin x.py has changed since"}
    with pytest.raises(HeadbenchError, match=r"plugin x\.py has changed since"):
        follow(Scripted(refused), 60.0, None, lambda _: None)
