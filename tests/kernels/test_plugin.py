"""The README's plugin with a kernel of its own: short, right, and it answers soon."""

from __future__ import annotations

import os
import time

import pytest

import results
from kernels.compiler import ARCHITECTURES, Build
from kernels.inspect import inspect
from results.schema import Outcome
from tests.harness.commands import headbench, only_run, tiny_run
from tests.test_readme import code_block


@pytest.fixture
def plugin_with_a_kernel(tmp_path):
    for name, containing in {"mine.py": "class Mine", "mine.cu": "__global__"}.items():
        (tmp_path / name).write_text(code_block(containing))
    return tmp_path / "mine.py"


def test_the_plugin_with_a_kernel_is_short_and_compiles_for_every_architecture(plugin_with_a_kernel, nvrtc):
    files = (plugin_with_a_kernel, plugin_with_a_kernel.with_suffix(".cu"))
    assert sum(len(file.read_text().splitlines()) for file in files) <= 40
    found = inspect(Build(files[1], ("HEAD_DIM=64",)))
    assert [one.architecture for one in found] == list(ARCHITECTURES)
    assert [one.spilled_bytes for one in found] == [0, 0, 0]


def test_the_plugin_with_a_kernel_is_unavailable_on_a_cpu(plugin_with_a_kernel, tmp_path):
    done = tiny_run(
        tmp_path / "runs", "--plugin", plugin_with_a_kernel, "--variant", "mine,sdpa", "--replicates", 1
    )
    assert done.returncode == 0, done.stdout
    outcomes = {r.case.variant: r.outcome for r in results.read(only_run(tmp_path / "runs")).records()}
    assert outcomes == {"mine": Outcome.UNAVAILABLE, "sdpa": Outcome.OK}


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(), ("--head-dim", "8,72", "--seq-len", "129", "--mask", "causal,full")])
def test_the_plugin_with_a_kernel_is_right_and_answers_soon(plugin_with_a_kernel, tmp_path, shape):
    names = ("--variant", "mine,sdpa", "--quick", *shape)
    began = time.monotonic()
    done = headbench("run", "--plugin", plugin_with_a_kernel, *names, "--out", tmp_path / "runs")
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stdout
    records = list(results.read(only_run(tmp_path / "runs")).records())
    assert {record.case.variant for record in records} == {"mine", "sdpa"}
    assert [record.reason for record in records if record.outcome is not Outcome.OK] == []
    if not shape and "PYTEST_XDIST_WORKER" not in os.environ:  # alone on the machine
        assert took_s < 15
