"""Which code measures, found by following imports: a change of it is told from a change of what is measured."""

from __future__ import annotations

import pytest

from harness.side_code import differing

from .commands import ROOT
from .scripted_trees import write

TREE = {
    "harness/__init__.py": "",
    "harness/worker.py": "import json\nfrom harness.rounds import measure\nfrom harness import state\n",
    "harness/rounds.py": "def f():\n    from results.statistics import median\n",
    "harness/state.py": "",
    "harness/cli.py": "import harness.worker\n",
    "results/statistics.py": "import numpy\n",
    "results/store.py": "",
    "variants/inputs.py": "",
    "variants/attention/sdpa.py": "",
    "kernels/timing.cu": "",
    "kernels/other.cu": "",
}


@pytest.fixture
def trees(tmp_path):
    for name in ("base", "head"):
        write(tmp_path / name, TREE)
    return tmp_path / "base", tmp_path / "head"


@pytest.mark.parametrize(
    "file",
    [
        "harness/worker.py",
        "harness/rounds.py",
        "harness/state.py",
        "harness/__init__.py",
        "results/statistics.py",
        "kernels/timing.cu",
    ],
)
def test_what_the_worker_imports_measures_also_inside_a_function_or_through_another(trees, file):
    write(trees[1], {file: TREE[file] + "\n# changed\n"})
    assert differing(*trees) == (file,)


@pytest.mark.parametrize(
    "file",
    ["harness/cli.py", "results/store.py", "variants/attention/sdpa.py", "kernels/other.cu", "README.md"],
)
def test_what_it_does_not_import_measures_nothing(trees, file):
    write(trees[1], {file: "# changed\n"})
    assert differing(*trees) == ()


def test_a_module_that_one_side_alone_imports_is_a_difference(trees):
    write(trees[1], {"harness/state.py": "import harness.clock\n", "harness/clock.py": ""})
    assert differing(*trees) == ("harness/clock.py", "harness/state.py")


def test_a_file_that_is_no_python_is_compared_all_the_same(trees):
    write(trees[1], {"harness/rounds.py": "def f(:\n"})
    assert differing(*trees) == ("harness/rounds.py",)


def test_in_this_very_checkout_clock_and_inputs_measure_and_variants_and_commands_do_not(tmp_path):
    (tmp_path / "empty").mkdir()
    code = differing(ROOT, tmp_path / "empty")
    assert {"harness/worker.py", "harness/rounds.py", "harness/timers.py", "results/statistics.py"} <= set(
        code
    )
    assert {"variants/inputs.py", "kernels/timing.cu"} <= set(code)
    assert not [file for file in code if file.startswith("variants/") and file != "variants/inputs.py"]
    assert not [
        file for file in code if "command" in file or file in ("harness/cli.py", "harness/progress.py")
    ]
