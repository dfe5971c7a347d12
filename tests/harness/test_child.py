"""A parent and its child, with real processes: whatever the child does, the parent ends, and knows what happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from harness.child import RUNNING, Child, Program, Silent

from .commands import ROOT, has_ended

LONG_S = 60
"""What a child would run for if nobody ended it: longer than any test may take."""


@pytest.fixture
def child_of(tmp_path, monkeypatch):
    """Start a child from a module's body; its channel is open already."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    started = []

    def start(body, job=None, silence_s=20.0, channel=True):
        opening = "from harness.channel import Channel\nchannel = Channel()\n" if channel else ""
        module = f"tiny_child_{len(started)}"
        (tmp_path / f"{module}.py").write_text(
            f"import os, signal, subprocess, sys, time\n{opening}{textwrap.dedent(body)}"
        )
        started.append(Child(module, job or {}, silence_s))
        return started[-1]

    yield start
    for child in started:
        child.stop()


def names(child):
    return [event["event"] for event in child.events()]


def test_events_arrive_in_order_with_their_facts_and_the_job_reaches_the_child(child_of):
    with child_of(
        """
        channel.send("job", job=channel.job)
        for i in range(100):
            channel.send("step", i=i, text="× ≥ \\n")
        """,
        job={"cases": [1, 2], "name": "µ"},
    ) as child:
        events = list(child.events())
    assert events[0] == {"event": "job", "job": {"cases": [1, 2], "name": "µ"}}
    assert events[1:] == [{"event": "step", "i": i, "text": "× ≥ \n"} for i in range(100)]
    assert child.exit_code == 0
    assert child.how_it_ended() == "ended with exit code 0"


def test_a_job_and_an_event_larger_than_a_pipe_pass_whole(child_of):
    big = {"text": "x" * 1_000_000}
    with child_of("channel.send('echo', job=channel.job)", job=big) as child:
        assert list(child.events()) == [{"event": "echo", "job": big}]


def test_a_child_that_prints_fifty_megabytes_both_ways_does_not_block_and_its_events_survive(child_of):
    with child_of(
        """
        channel.send("before")
        for _ in range(50):
            os.write(1, b"o" * 1_000_000)
            os.write(2, b"e" * 1_000_000)
        print("\\nthe last words")
        sys.stdout.flush()
        channel.send("after")
        """
    ) as child:
        assert names(child) == ["before", "after"]
    assert child.exit_code == 0
    assert child.last_line() == "the last words"


def test_what_is_printed_is_never_taken_for_an_event(child_of):
    with child_of(
        """
        print('{"event": "forged from Python"}', flush=True)
        os.write(1, b'{"event": "forged from C"}\\n')
        subprocess.run([sys.executable, "-c", "print('{\\"event\\": \\"forged by a process\\"}')"])
        channel.send("real")
        """
    ) as child:
        assert names(child) == ["real"]


def test_what_is_printed_before_the_channel_is_open_is_no_event_either(child_of):
    with child_of(
        """
        print("a banner from some start-up hook")
        print('["no", "event"]')
        sys.stdout.flush()
        os.write(1, b"\\xff no text\\n")
        from harness.channel import Channel
        Channel().send("real")
        """,
        channel=False,
    ) as child:
        assert names(child) == ["real"]


def test_a_silent_child_raises_within_the_limit_and_still_runs(child_of):
    child = child_of(f"channel.send('ready'); time.sleep({LONG_S})")
    events = child.events()
    assert next(events) == {"event": "ready"}
    child.silence_s = 0.3
    began = time.monotonic()
    with pytest.raises(Silent):
        next(events)
    assert 0.2 < time.monotonic() - began < 3
    assert child.exit_code is None
    assert child.how_it_ended() == "is still running"


def test_printing_is_no_sign_of_life(child_of):
    child = child_of(
        f"""
        channel.send("ready")
        end = time.monotonic() + {LONG_S}
        while time.monotonic() < end:
            print("working …", flush=True)
            time.sleep(0.02)
        """
    )
    events = child.events()
    next(events)
    child.silence_s = 0.3
    with pytest.raises(Silent):
        next(events)
    assert child.last_line() == "working …"


def test_a_child_that_closes_its_pipes_and_runs_on_is_silent(child_of):
    child = child_of(f"channel.send('ready'); os.closerange(0, 100); time.sleep({LONG_S})")
    events = child.events()
    next(events)
    child.silence_s = 0.3
    began = time.monotonic()
    with pytest.raises(Silent):
        next(events)
    assert time.monotonic() - began < 3


def test_a_parent_that_was_busy_does_not_take_its_own_pause_for_the_childs_silence(child_of):
    child = child_of(
        """
        channel.send("one")
        time.sleep(0.1)
        channel.send("two")
        channel.send("three")
        """
    )
    seen = []
    for event in child.events():
        if event["event"] == "one":
            child.silence_s = 0.4
            time.sleep(0.6)
        seen.append(event["event"])
    assert seen == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("body", "code", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "was ended by SIGSEGV"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            -signal.SIGKILL,
            "was ended by SIGKILL (from outside, or by the system for want of memory)",
        ),
        ("os.kill(os.getpid(), 40)", -40, "was ended by signal 40"),
        ("os._exit(3)", 3, "ended with exit code 3"),
        ("sys.exit('no such thing')", 1, "ended with exit code 1: no such thing"),
        ("raise ValueError('of this')", 1, "ended with exit code 1: ValueError: of this"),
    ],
)
def test_how_a_child_ended_is_said_in_one_line_and_what_it_sent_before_stands(child_of, body, code, how):
    with child_of(f"channel.send('begin')\n{body}") as child:
        assert names(child) == ["begin"]
        assert child.exit_code == code
        assert child.how_it_ended() == how


def test_last_words_are_cut_to_a_line_of_bounded_length(child_of):
    with child_of("print('x' * 10_000, file=sys.stderr); print(' \\n\\n', file=sys.stderr)") as child:
        assert names(child) == []
        assert child.last_line() == "x" * 300


def test_an_event_cut_in_the_middle_is_dropped(child_of):
    with child_of(
        """
        channel.send("whole")
        channel._events.write('{"event": "cut')
        channel._events.flush()
        os._exit(0)
        """
    ) as child:
        assert names(child) == ["whole"]


@pytest.mark.parametrize("job_bytes", [10, 1_000_000])
def test_a_child_that_dies_at_once_is_noticed_whatever_the_size_of_its_job(child_of, job_bytes):
    with child_of("os._exit(7)", job={"text": "x" * job_bytes}, channel=False) as child:
        assert names(child) == []
        assert child.how_it_ended() == "ended with exit code 7"


def test_a_module_that_is_not_there_ends_as_a_message(child_of):
    with Child("harness.there_is_no_such_module", {}, 20.0) as child:
        assert names(child) == []
        assert child.exit_code == 1
        assert "No module named harness.there_is_no_such_module" in child.how_it_ended()


def test_a_grandchild_that_holds_the_pipes_open_does_not_hang_the_parent(child_of):
    began = time.monotonic()
    with child_of(
        f"""
        grandchild = subprocess.Popen(["sleep", "{LONG_S}"])
        channel.send("grandchild", pid=grandchild.pid)
        """
    ) as child:
        (event,) = child.events()
        assert child.exit_code == 0
    assert time.monotonic() - began < 10
    assert has_ended(event["pid"])  # leaving the block ended it, too


def test_what_a_profiler_prints_once_the_child_is_done_is_still_heard(child_of):
    child = child_of("channel.send('done'); os.write(2, b'written: ncu.csv\\n')")
    assert next(child.events()) == {"event": "done"}
    assert names(child) == []
    assert child.said() == "written: ncu.csv\n"


def test_what_comes_together_with_an_event_is_not_lost_when_only_that_event_is_taken():
    """A program around the child has the same stdout, and prints its own lines there."""
    together = """printf '{"event": "done"}\\n==ERROR== refused\\nhalf a'; sleep 0.3; echo ' line'"""
    with Child("unused", {}, 20.0, Program("ignored", ROOT, under=("sh", "-c", together))) as child:
        assert next(child.events()) == {"event": "done"}
        assert names(child) == []
        assert child.said() == "==ERROR== refused\nhalf a line\n"
        assert child.exit_code == 0


def test_a_program_runs_under_the_command_that_is_put_before_it(child_of, monkeypatch):
    with child_of("channel.send('seen', under=os.environ.get('UNDER'), job=channel.job)", job={"n": 1}):
        pass
    under = replace(RUNNING, under=("env", "UNDER=profiler"))
    assert under.environment() == RUNNING.environment()
    with Child("tiny_child_0", {"n": 2}, 20.0, under) as child:
        assert list(child.events()) == [{"event": "seen", "under": "profiler", "job": {"n": 2}}]


def test_stop_ends_the_child_and_what_it_started_and_may_be_called_again(child_of):
    child = child_of(
        f"""
        grandchild = subprocess.Popen(["sleep", "{LONG_S}"])
        channel.send("grandchild", pid=grandchild.pid)
        time.sleep({LONG_S})
        """
    )
    pid = next(child.events())["pid"]
    assert not has_ended(pid, within_s=0)
    child.stop()
    assert child.exit_code == -signal.SIGKILL
    assert has_ended(pid)
    child.stop()


def test_ctrl_c_is_the_parents_to_handle(child_of):
    with child_of(
        """
        os.kill(os.getpid(), signal.SIGINT)
        channel.send("alive", own_session=os.getsid(0) == os.getpid())
        """
    ) as child:
        assert list(child.events()) == [{"event": "alive", "own_session": True}]


def test_a_parent_that_is_killed_takes_its_child_with_it(tmp_path):
    (tmp_path / "orphan.py").write_text(
        f"import os, time\nfrom harness.channel import Channel\n"
        f"Channel().send('pid', pid=os.getpid())\ntime.sleep({LONG_S})\n"
    )
    parent_code = (
        "import time\nfrom harness.child import Child\nchild = Child('orphan', {}, 60.0)\n"
        f"print(next(child.events())['pid'], flush=True)\ntime.sleep({LONG_S})\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", parent_code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
    )
    with parent:
        assert parent.stdout is not None
        pid = json.loads(parent.stdout.readline())
        assert not has_ended(pid, within_s=0)
        parent.kill()
    assert has_ended(pid)
