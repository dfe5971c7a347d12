"""`--dry-run`: the plan, what it leaves out and how long it would take."""

from __future__ import annotations

import re

import pytest

from .commands import headbench


def test_a_dry_run_prints_the_plan_and_measures_nothing(tmp_path):
    done = headbench("run", "--all", "--device", "cpu", "--dry-run", "--out", tmp_path / "runs")
    assert done.returncode == 0
    assert "sublayer" in done.stdout
    assert "needs a CUDA device" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_of_each_stage_what_it_leaves_out():
    done = headbench("run", "--stage", "sublayer,stack", "--device", "cpu", "--dry-run")
    left_out, asides = (line for line in done.stdout.splitlines() if " in sublayer; " in line)
    assert left_out.endswith(": custom in sublayer; fused_graph in stack")
    of_sublayer, of_stack = asides.split(" in sublayer; ")
    assert "nn_multihead_attention" not in of_sublayer
    assert "custom" not in of_sublayer
    assert {"custom", "nn_multihead_attention"} <= set(of_stack.removesuffix(" in stack").split(", "))


def test_a_plan_without_a_case_to_measure_promises_no_time():
    done = headbench(
        "run", "--stage", "attention", "--variant", "flash_hopper", "--device", "cpu", "--dry-run"
    )
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("0 of "))
    assert told.endswith("; nothing to measure here, each case has its reason")


@pytest.mark.parametrize(
    ("asked", "has_stacks"),
    [
        ((), False),
        (("--model", "andrea-12m"), False),
        (("--stage", "qkv,stack"), True),
        (("--n-layer", "2"), True),
        (("--variant", "composed"), True),
    ],
)
def test_a_first_look_has_stacks_only_if_they_are_asked_for(asked, has_stacks):
    done = headbench("run", "--quick", "--device", "cpu", "--dry-run", *asked)
    assert bool(re.search(r"^  stack ", done.stdout, re.MULTILINE)) is has_stacks, done.stderr


@pytest.mark.parametrize(("budget", "told"), [("1s", r"at least [1-9]\d* s"), ("30m", "up to about 1800 s")])
def test_a_budget_that_starting_and_verifying_alone_exceed_is_not_announced_as_the_time(budget, told):
    done = headbench("run", "--stage", "qkv", "--device", "cpu", "--dry-run", "--budget", budget)
    assert re.search(f"; {told}\n", done.stdout)
