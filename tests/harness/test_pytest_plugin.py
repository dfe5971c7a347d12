from __future__ import annotations

import inspect
import json
import tomllib
from typing import TYPE_CHECKING

import pytest

from harness.__main__ import SIBLINGS
from harness.pytest_plugin import RoundClock
from tests.harness.commands import ROOT
from tests.harness.pytest_sessions import Session

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def session(tmp_path: Path) -> Session:
    one = Session(tmp_path)
    one.write()
    return one


def test_the_report_holds_medians_as_rounds_every_sample_and_the_gpu(session: Session) -> None:
    report = session.benchmarks("--benchmark-min-rounds=3", median_s=1e-4, modes=["isolated", "eager"])
    (benchmark,) = report["benchmarks"]
    assert benchmark["stats"]["data"] == pytest.approx([1.00e-4, 1.01e-4, 1.02e-4], rel=1e-12)
    assert benchmark["stats"]["median"] == pytest.approx(1.01e-4)
    assert (benchmark["stats"]["rounds"], benchmark["stats"]["iterations"]) == (3, 1)
    assert benchmark["options"]["timer"] == "headbench"
    told = benchmark["extra_info"]
    assert told["case"] == "qkv/forward/b32-t1024-h12x64-causal-bf16/fused_qkv"
    assert told["mode"] == "isolated"
    assert list(told["samples"]) == ["isolated", "eager"]
    assert [series["replicate"] for series in told["samples"]["eager"]] == [0, 1, 2]
    first = told["samples"]["isolated"][0]
    assert first["span_s"] == pytest.approx([9e-4, 0.9e-4, 1e-4, 1.2e-4])
    assert first["warmup_samples"] == 1
    machine = report["machine_info"]
    assert machine["gpu"]["name"] == "NVIDIA H200"
    assert machine["gpu"]["driver"] == "580.65"
    assert machine["torch"] == {"version": "2.11.0", "cuda": "13.0", "cudnn": 91400}
    assert machine["cpu"] == {"brand": "made up"}


@pytest.mark.parametrize(("now_s", "fails"), [(1.00e-4, False), (1.02e-4, False), (1.10e-4, True)])
def test_compare_fail_judges_the_medians_of_a_stored_session(
    session: Session, now_s: float, fails: bool
) -> None:
    storage = "--benchmark-storage=file://./kept"
    assert session.run(storage, "--benchmark-save=base", median_s=1e-4).returncode == 0
    (saved,) = (session.folder / "kept").rglob("*_base.json")
    assert json.loads(saved.read_text())["benchmarks"][0]["stats"]["rounds"] == 5
    done = session.run(storage, "--benchmark-compare", "--benchmark-compare-fail=median:5%", median_s=now_s)
    assert ("Performance has regressed" in done.stdout + done.stderr) is fails
    assert (done.returncode != 0) is fails


def test_a_session_on_the_same_gpu_compares_without_a_warning_and_on_another_with_one(
    session: Session,
) -> None:
    assert session.run("--benchmark-save=base", uuid="GPU-1").returncode == 0
    same = session.run("--benchmark-compare", uuid="GPU-1")
    other = session.run("--benchmark-compare", uuid="GPU-2")
    assert "machine_info is different" not in same.stdout + same.stderr
    assert "machine_info is different" in other.stdout + other.stderr


def test_comparing_with_a_session_that_headbench_had_no_part_in_looks_at_nothing(session: Session) -> None:
    session.write("def test_other(benchmark):\n    benchmark(lambda: None)\n")
    assert session.run("--benchmark-save=base").returncode == 0
    assert session.run("--benchmark-compare").returncode == 0
    assert session.looks() == 0


def test_a_histogram_of_the_rounds_is_drawn(session: Session) -> None:
    done = session.run("--benchmark-histogram=drawn", "--benchmark-min-rounds=2")
    assert done.returncode == 0, done.stdout
    (drawn,) = session.folder.glob("drawn*.svg")
    assert "test_fused" in drawn.read_text()


def test_disabled_it_verifies_in_one_process_and_reports_no_time(session: Session) -> None:
    done = session.run("--benchmark-disable", "--benchmark-json=none.json")
    assert done.returncode == 0, done.stdout
    assert session.asked() == 1
    assert "Rounds" not in done.stdout
    report = session.folder / "none.json"  # older versions of pytest-benchmark leave the file empty
    assert not report.exists() or report.read_text() == ""


def test_disabled_it_still_fails_what_is_incorrect(session: Session) -> None:
    session.write("def test_it(headbench):\n    headbench(stage='qkv', variant='is_incorrect')\n")
    done = session.run("--benchmark-disable")
    assert done.returncode == 1
    assert "is_incorrect is incorrect: made up" in done.stdout


def test_benchmark_skip_measures_nothing(session: Session) -> None:
    done = session.run("--benchmark-skip")
    assert "1 skipped" in done.stdout
    assert session.looks() == 0


def test_benchmark_only_keeps_it_and_skips_the_rest(session: Session) -> None:
    session.write(ONE_AND_PLAIN)
    done = session.run("--benchmark-only")
    assert "1 passed, 1 skipped" in done.stdout
    assert session.asked() == 5


ONE_AND_PLAIN = """
def test_fused(headbench):
    headbench(stage="qkv", variant="fused_qkv")

def test_plain():
    pass
"""


def test_what_cannot_be_measured_is_skipped_and_what_is_wrong_fails_each_with_its_reason(
    session: Session,
) -> None:
    session.write(
        "import pytest\nfrom results.schema import Outcome\n\n"
        "@pytest.mark.parametrize('outcome', list(Outcome))\n"
        "def test_it(headbench, outcome):\n    headbench(stage='qkv', variant=f'is_{outcome}')\n"
    )
    done = session.run("--benchmark-json=report.json")
    assert "3 failed, 1 passed, 3 skipped" in done.stdout
    for outcome in ("unsupported", "unavailable", "out_of_memory"):
        assert f"{outcome}: made up" in done.stdout
    for outcome in ("incorrect", "crashed", "timed_out"):
        assert f"is_{outcome} is {outcome}: made up" in done.stdout
    report = json.loads((session.folder / "report.json").read_text())
    assert [one["name"] for one in report["benchmarks"]] == ["test_it[ok]"]


def test_a_mode_without_times_skips_with_the_reason(session: Session) -> None:
    session.write(ASKING.format("mode='graph'"))
    assert "has no graph: it synchronises" in session.run().stdout


def test_a_mode_that_was_asked_for_gives_the_rounds(session: Session) -> None:
    session.write(ASKING.format("mode='eager', replicates=2"))
    (benchmark,) = session.benchmarks(modes=["isolated", "eager"])["benchmarks"]
    assert benchmark["extra_info"]["mode"] == "eager"
    assert benchmark["stats"]["rounds"] == 2


ASKING = """
def test_fused(headbench):
    headbench(stage="qkv", variant="fused_qkv", {})
"""


def test_what_does_not_fit_fails_in_one_line(session: Session) -> None:
    told = {
        "mode='isolatd'": "mode 'isolatd' is unknown: did you mean isolated?",
        "replicates=0": "replicates=0 is out of range: 1 to 100 would do",
        "budget_s=-1": "budget_s=-1 is not a time: seconds above 0 would do",
        "dtype='fp8'": "fp8",
        "direction='backwards'": "direction 'backwards' is unknown: did you mean backward or forward?",
        "d_model=100": "100",
    }
    session.write("".join(ASKING.format(asked).replace("fused(", f"n{n}(") for n, asked in enumerate(told)))
    done = session.run()
    assert f"{len(told)} failed" in done.stdout
    for message in told.values():
        assert message in done.stdout
    assert "Error" not in done.stdout
    assert "During handling" not in done.stdout


def test_an_argument_of_another_kind_fails_in_one_line_that_names_it(session: Session) -> None:
    told = {
        "head_dim='64'": "head_dim='64' does not fit: a whole number would do, as in head_dim=64",
        "batch=True": "batch=True does not fit: a whole number",
        "n_head=[12]": "n_head=[12] does not fit: a whole number",
        "seq_len=1.5": "seq_len=1.5 does not fit: a whole number",
        "replicates='3'": "replicates='3' does not fit: a whole number",
        "model=120": "model=120 does not fit: text would do",
        "dtype=('bf16',)": "dtype=('bf16',) does not fit: text would do",
        "direction=['step']": "direction=['step'] does not fit: text would do",
        "mask=True": "mask=True does not fit: text would do",
        "mode=1": "mode=1 does not fit: text would do",
        "device=0": "device=0 does not fit: text would do",
        "budget_s='9s'": "budget_s='9s' does not fit: seconds would do, as in budget_s=60",
        "budget_s=float('nan')": "budget_s=nan is not a time",
        "seed=-1": "seed=-1 does not fit: a whole number from 0 to 2147483648 would do",
        "seed=2**31 + 1": "seed=2147483649 does not fit",
        "seed=None": "seed=None does not fit",
        "plugins='abc'": "plugins='abc' does not fit: a list of paths would do",
        "plugins=[1]": "plugins=[1] does not fit: a list of paths would do",
        "plugins=None": "plugins=None does not fit: a list of paths would do",
    }
    session.write("".join(ASKING.format(asked).replace("fused(", f"n{n}(") for n, asked in enumerate(told)))
    done = session.run()
    assert f"{len(told)} failed" in done.stdout
    for message in told.values():
        assert message in done.stdout
    assert "Error" not in done.stdout
    assert "Traceback" not in done.stdout
    assert session.looks() == 0


def test_every_argument_of_the_fixture_has_a_rule() -> None:
    from harness.fixture_arguments import RULES
    from harness.headbench_fixture import Headbench

    assert RULES.keys() == inspect.signature(Headbench.__call__).parameters.keys() - {"self"}


def test_a_test_s_own_marker_keeps_its_group_and_its_rounds(session: Session) -> None:
    session.write("import pytest\n@pytest.mark.benchmark(group='mine', min_rounds=4)" + ASKING.format(""))
    (benchmark,) = session.benchmarks()["benchmarks"]
    assert benchmark["group"] == "mine"
    assert benchmark["stats"]["rounds"] == 4


def test_a_second_call_in_one_test_is_refused(session: Session) -> None:
    session.write(ASKING.format("") + ASKING.format("").partition(":\n")[2])
    done = session.run()
    assert done.returncode == 1
    assert "headbench was called twice" in done.stdout


def test_the_record_is_handed_back_for_further_assertions(session: Session) -> None:
    session.write(
        "def test_it(headbench):\n"
        "    record = headbench(stage='qkv', variant='fused_qkv')\n"
        "    assert record.estimates['isolated'].replicates == 5\n"
    )
    assert session.run().returncode == 0


def test_a_fixture_asked_for_too_late_says_where_it_belongs(session: Session) -> None:
    session.write("def test_it(request):\n    request.getfixturevalue('headbench')\n")
    assert "must be an argument of the test" in session.run().stdout


def test_the_profiler_s_extra_call_finds_a_round(session: Session) -> None:
    done = session.run("--benchmark-cprofile=tottime")
    assert done.returncode == 0, done.stdout


def test_xdist_is_refused_but_for_verifying(session: Session) -> None:
    refused = session.run("-n", "1")
    assert refused.returncode == 1
    assert "headbench measures one case at a time" in refused.stdout
    assert session.looks() == 0
    assert session.run("-n", "1", "--benchmark-disable").returncode == 0


def test_without_pytest_benchmark_plain_tests_pass_and_the_fixture_says_what_is_missing(
    session: Session,
) -> None:
    session.write(ONE_AND_PLAIN, scripted=False)
    done = session.run("-p", "no:benchmark")
    assert done.returncode == 1
    assert "1 passed, 1 error" in done.stdout
    assert "the headbench fixture needs pytest-benchmark: pip install pytest-benchmark" in done.stdout


@pytest.mark.parametrize("name", ["harness", *SIBLINGS])
def test_a_project_with_a_package_of_one_of_our_names_runs_its_tests(session: Session, name: str) -> None:
    session.write(f"import {name}\n{ONE_AND_PLAIN}    assert {name}.THEIRS\n", scripted=False)
    (session.folder / name).mkdir()
    (session.folder / name / "__init__.py").write_text("THEIRS = True\n")
    done = session.run()
    assert "1 passed, " in done.stdout
    assert " 1 error in " in done.stdout
    assert f"has a package named '{name}', which hides headbench's own" in done.stdout
    assert "ModuleNotFoundError" not in done.stdout


def test_a_session_that_does_not_use_it_imports_nothing_of_ours_but_the_plugin(session: Session) -> None:
    session.write(
        "import sys\n"
        "def test_plain():\n"
        "    heavy = {'torch', 'pandas', 'numpy', 'results', 'reports', 'variants', 'rich'} & set(sys.modules)\n"
        "    ours = {name for name in sys.modules if name.startswith('harness.')}\n"
        "    assert (heavy, ours) == (set(), {'harness.pytest_plugin'})\n",
        scripted=False,
    )
    done = session.run()
    assert done.returncode == 0, done.stdout


def test_the_installed_entry_point_is_this_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"headbench": "pytest_headbench"}


def test_for_real_a_small_case_is_measured_in_fresh_processes(session: Session) -> None:
    session.write(
        "def test_it(headbench):\n"
        "    headbench(stage='qkv', variant='fused', d_model=32, n_head=2, seq_len=16, device='cpu', budget_s=1,\n"
        "        direction='step')\n",
        scripted=False,
    )
    (benchmark,) = (data := session.benchmarks("--benchmark-min-rounds=2"))["benchmarks"]
    assert benchmark["extra_info"]["mode"] == "eager"
    assert benchmark["extra_info"]["case"].startswith("qkv/step/b1-t16-h2x16-")
    assert all(0 < round_s < 1 for round_s in benchmark["stats"]["data"])
    assert len(benchmark["stats"]["data"]) == 2
    assert data["machine_info"]["device"] == "cpu"
    assert data["machine_info"]["gpu"] is None


def test_the_clock_reads_exactly_the_round_that_is_played() -> None:
    clock = RoundClock()
    clock.load([0.1, 1e9, 1e-9])
    read = []
    for _ in range(4):
        clock.start()
        before = clock()
        clock.play()
        read.append(clock() - before)
    assert read == [0.1, 1e9, 1e-9, 0.1]
