"""`claims` as a command: what it takes, what it measures, how it ends."""

from __future__ import annotations

import html
import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness import claims_command, experiments
from harness.claims_command import Options, chosen
from harness.claims_measuring import cases_to_count, plan_of, selection_of
from harness.errors import INTERRUPTED, HeadbenchError, UsageError
from harness.plan import VariantFacts
from results.claims import CLAIMS, Evidence
from results.claims.claim import Cases
from results.claims.observed import FILE, load
from results.claims.observed import append as stored_experiment
from results.errors import StoreError
from results.store import read
from tests.harness.commands import children_of, command, environment, headbench, only_run
from tests.results import builders
from tests.results.sessions import STEADY, session
from tests.results.sessions import stored as stored_session
from variants.registry import discover
from variants.stage import STAGES

REFERENCE = "nvidia-h200/default"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(claims=("C14",)), "claim 'C14' is unknown: the lesson's are C1 to C13"),
        (Options(claims=("all",)), "claim 'all' is unknown"),
        (Options(recorded="nowhere"), "no run at nowhere"),
        (Options(recorded=REFERENCE, quick=True), "--quick is for measuring"),
        (Options(recorded=REFERENCE, device="cpu"), "--device is for measuring"),
        (
            Options(recorded=REFERENCE, formats=("json", "markdown")),
            "--json and --markdown exclude each other",
        ),
        (Options(claims=("C4",), device="gpu"), "gpu"),
    ],
)
def test_wrong_usage_is_said_in_one_line(options: Options, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        claims_command.show(options)
    assert "\n" not in str(raised.value)


def test_a_session_is_two_runs(tmp_path) -> None:
    path = stored_session(tmp_path, session({builders.case(): STEADY}))
    with pytest.raises(UsageError, match="is an ab session: name its base or its head"):
        claims_command.show(Options(recorded=str(path)))


def test_claims_are_taken_in_the_lessons_order_whatever_is_typed() -> None:
    assert [claim.id for claim in chosen(["c8", "C2"])] == ["C2", "C8"]
    assert [claim.id for claim in chosen([])] == [f"C{number}" for number in range(1, 14)]


def test_a_recorded_run_is_judged_whatever_the_verdicts() -> None:
    done = headbench("claims", "--from", REFERENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "13 claims judged on NVIDIA H200" in done.stdout
    for claim in CLAIMS:
        assert f"\n{claim}  " in done.stdout


def test_a_recorded_run_goes_into_programs() -> None:
    done = headbench("claims", "C2", "--from", REFERENCE, "--json")
    (claim,) = json.loads(done.stdout)["claims"]
    assert claim["judgement"] == "partly"
    assert headbench("claims", "C2", "--from", REFERENCE, "--markdown").stdout.startswith("**1 claim judged")


def test_judging_imports_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; from harness.claims_command import Options, show; "
        f"show(Options(recorded={REFERENCE!r})); "
        "print([name for name in ('torch', 'pandas', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_damaged_experiment_is_noted(tmp_path) -> None:
    path = builders.stored(tmp_path)
    (path / FILE).write_text("{}\n")
    done = headbench("claims", "C4", "--from", path)
    assert done.returncode == 0
    assert f"line 1 of {FILE} is no experiment" in " ".join(done.stdout.split())


def test_a_damaged_manifest_is_told_in_one_line(tmp_path) -> None:
    of = builders.manifest(
        environment={**builders.GPU_ENVIRONMENT, "peaks": {"bf16": {"flops_per_s": 1e12, "clock_mhz": "x"}}}
    )
    done = headbench("claims", "--from", builders.stored(tmp_path, of))
    assert done.returncode in (0, 1)
    assert len(done.stderr.splitlines()) == done.returncode


@pytest.mark.parametrize("form", [[], ["--markdown"], ["--json"]])
def test_names_with_markup_and_control_codes_reach_the_reader_as_they_are(tmp_path, form: list[str]) -> None:
    named = "[red]H200[/red] | <script>x</script> \x1b[31m"
    gpu = {**builders.GPU_ENVIRONMENT, "gpu": {**builders.GPU_ENVIRONMENT["gpu"], "name": named}}
    done = headbench(
        "claims", "C2", "--from", builders.stored(tmp_path, builders.manifest(environment=gpu)), *form
    )
    assert done.returncode == 0
    assert "H200" in done.stdout
    assert "[red]" in html.unescape(done.stdout)
    assert "<script>" not in done.stdout or form != ["--markdown"]


def test_what_cannot_be_measured_here_at_all_is_said_before_the_verdict_and_leaves_no_run(tmp_path) -> None:
    done = headbench("claims", "C9", "--device", "cpu", "--out", tmp_path)
    assert (done.returncode, "nothing of it can be measured on" in done.stderr) == (0, True)
    assert "" not in done.stderr.splitlines()
    assert "C9  not measurable here" in done.stdout
    assert list(tmp_path.iterdir()) == []


FACTS = [
    VariantFacts(stage, name, "", "", None, None)
    for stage, name in (("qkv", "fused"), ("attention", "sdpa"), ("attention", "materialized"))
]
ON_CPU = {**builders.CPU_ENVIRONMENT, "device": "cpu"}


def test_what_this_version_lacks_is_left_out_of_the_plan() -> None:
    assert selection_of(Cases(("qkv",), ("no_such",)), FACTS) is None
    assert selection_of(Cases(("no_such",)), FACTS) is None
    known = selection_of(Cases(("attention", "no_such"), ("sdpa", "sdpa_strided")), FACTS)
    assert known is not None
    assert (known.stages, known.variants) == (("attention",), ("sdpa",))


def test_every_variant_that_a_claim_names_exists_in_one_of_its_stages() -> None:
    known = set(discover().variants)
    for claim in CLAIMS.values():
        for cases in claim.cases:
            if set(cases.stages) <= set(STAGES):
                for name in cases.variants:
                    assert any((stage, name) in known for stage in cases.stages), f"{claim.id}: {name}"


def test_a_case_that_two_claims_want_is_measured_once_and_a_gpus_not_on_a_cpu() -> None:
    wanted = [
        Cases(("attention",), ("sdpa",), (768,), (12,)),
        Cases(("attention",), ("sdpa", "materialized"), (768,), (12,)),
        Cases(("qkv",), ("fused",), (768,), (12,), needs_gpu=True),
    ]
    plan = plan_of(wanted, FACTS, ON_CPU)
    assert [case.variant for case in plan.cases] == ["sdpa", "materialized"]
    assert len(plan.groups) == 1


ON_GPU = {
    **builders.GPU_ENVIRONMENT,
    "device": "cuda:0",
    "gpu": {**builders.GPU_ENVIRONMENT["gpu"], "memory_bytes": 141 << 30},
}


def on_a_gpu() -> list[VariantFacts]:
    """Every variant, as a GPU that lacks nothing has them."""
    return [VariantFacts(stage, name, "", "", None, None) for stage, name in discover().variants]


def test_on_a_gpu_only_what_a_claim_asks_for_is_counted_and_that_is_a_part_of_what_is_timed() -> None:
    timed = plan_of((cases for claim in CLAIMS.values() for cases in claim.cases), on_a_gpu(), ON_GPU)
    counted = cases_to_count(CLAIMS.values(), on_a_gpu(), ON_GPU)
    assert set(counted) < set(timed.cases)
    assert {(case.stage, case.causal) for case in counted} == {("attention", False)}
    assert {case.head_dim for case in counted} == {32, 64, 72, 80}
    assert cases_to_count([CLAIMS["C2"]], on_a_gpu(), ON_GPU) == ()
    assert cases_to_count(CLAIMS.values(), FACTS, ON_CPU) == ()


def test_trainings_are_shared_out_and_each_seed_trains_both_models() -> None:
    jobs = experiments.jobs_for(["learnt", "calls", "learnt"], quick=True)
    assert [job["kind"] for job in jobs] == ["learnt"] * 10 + ["calls"]
    assert {(job["seed"], job["n_head"]) for job in jobs[:-1]} == {(s, h) for s in range(5) for h in (4, 1)}
    heads = [[job.get("n_head") for job in jobs[first::2]] for first in (0, 1)]
    assert [of.count(4) for of in heads] == [3, 2], "no child has all the long ones"
    assert len(experiments.jobs_for(["learnt"], quick=False)) > len(jobs)


def test_a_child_that_dies_is_told_and_what_was_stored_stays(tmp_path) -> None:
    told: list[str] = []
    jobs = [{"kind": "parameters"}, {"kind": "parameters"}, {"kind": "no_such_kind"}]
    with pytest.raises(
        HeadbenchError, match=r"makes the claims' experiments ended with exit code 1: KeyError"
    ):
        experiments.make(jobs, tmp_path, told.append)
    assert len(load(tmp_path).parameters) >= 1
    assert told[0] == "1 of 3 experiments: parameters"


def test_algebra_is_made_stored_and_judged_again(tmp_path) -> None:
    out = tmp_path / "a folder's name"
    done = headbench("claims", "C3", "c4", "C5", "--device", "cpu", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "\nC4  supported" in done.stdout
    assert "\nC5  supported" in done.stdout
    again = shlex.split(done.stderr.partition("judge again: ")[2])
    assert again[:3] == ["python", "-m", "harness"]
    assert headbench(*again[3:]).stdout == done.stdout
    assert len(Evidence.of(read(only_run(out))).observed.dependence) == 3


def test_a_disk_that_fills_up_is_told_after_the_verdict_on_what_was_stored(
    tmp_path, monkeypatch, capsys
) -> None:
    kept: list[str] = []

    def append(folder: Path, kind: str, plain: dict[str, Any]) -> None:
        if kept:
            raise StoreError("cannot store an experiment: the disk is full")
        kept.append(kind)
        stored_experiment(folder, kind, plain)

    monkeypatch.setattr(experiments, "append", append)
    with pytest.raises(HeadbenchError, match="the disk is full"):
        claims_command.show(Options(claims=("C3", "C4"), device="cpu", out=tmp_path))
    said = capsys.readouterr()
    assert f"stored in {only_run(tmp_path)}" in said.err
    done = {"parameters": "C3  partly", "round_trips": "C4  supported"}[kept[0]]
    assert done in said.out


def test_who_cannot_be_shown_the_verdict_is_told_where_it_is_stored(tmp_path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command("claims", "C4", "--quick", "--device", "cpu", "--out", str(tmp_path)),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    *_, told, error = done.stderr.splitlines()
    assert told.startswith(f"stored in {only_run(tmp_path)}; judge again: ")
    assert error == "headbench: the system refused: [Errno 28] No space left on device"


def test_cases_and_experiments_share_one_run(tmp_path) -> None:
    done = headbench("claims", "C1", "--quick", "--device", "cpu", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\nC1  supported" in done.stdout
    run = read(only_run(tmp_path))
    assert {trial.case.variant for trial in run.trials} == {"per_head", "fused", "fused_qkv"}
    assert (run.path / FILE).exists()


def test_an_interrupt_ends_children_and_shows_what_there_is(tmp_path) -> None:
    running = subprocess.Popen(
        command("claims", "C6", "--device", "cpu", "--out", tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    # Its probe has ended by the time that there is a run: a child beside one is an experiment's.
    while not (list(tmp_path.glob("*/manifest.json")) and children_of(running.pid)):
        assert running.poll() is None, "it ended before it began"
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, error = running.communicate(timeout=60)
    assert running.returncode == INTERRUPTED
    assert "Traceback" not in error
    assert "C6  not measurable here" in out
    assert f"stored in {only_run(tmp_path)}" in error


@pytest.mark.gpu
def test_on_a_gpu_kernels_are_counted_and_the_lessons_kernel_is_timed(tmp_path) -> None:
    done = headbench("claims", "C1", "C9", "--quick", "--out", tmp_path, timeout_s=400)
    assert done.returncode == 0, done.stderr
    assert "\nC1  supported" in done.stdout
    told = " ".join(done.stdout.split())
    assert "all heads are 1 launch" in told
    assert "the time of the library's kernel" in told
