"""`compare` as a command: what it takes, what it prints, how it ends."""

import json
import sys
from dataclasses import replace

import pytest

from harness import compare_command
from harness.errors import UsageError
from harness.verdict_output import print_verdicts
from tests.harness.commands import headbench
from tests.results import builders
from tests.results.sessions import STEADY, session
from tests.results.sessions import stored as stored_session

PLAN = builders.manifest([builders.case("fused")])


def folder_of_runs(folder, times_s, **manifest):
    """A run of two replicates for each time."""
    for number, median_s in enumerate(times_s):
        of = replace(PLAN, run_id=f"run-{number}", **manifest)
        trials = [builders.trial(of.cases[0], n, median_s=median_s) for n in (0, 1)]
        builders.stored(folder, of, trials)
    return folder


def test_three_runs_a_side_are_judged_and_nothing_fails(tmp_path, capsys):
    base = folder_of_runs(tmp_path / "base", [1e-4] * 3)
    head = folder_of_runs(tmp_path / "head", [1.03e-4] * 3)
    assert compare_command.show(str(base), str(head), (), ["json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["verdict"] for row in data["rows"]} == {"slower"}
    assert data["unit"] == "runs"
    assert data["base"] == f"{base} (3 runs)"


def test_a_run_compared_with_itself_is_said_to_be(tmp_path, capsys):
    base = folder_of_runs(tmp_path / "base", [1e-4] * 3)
    compare_command.show(str(base), str(base), (), ["json"])
    told = "3 runs on both sides: what is compared with itself cannot differ"
    assert told in json.loads(capsys.readouterr().out)["notes"]
    head = folder_of_runs(tmp_path / "head", [1e-4] * 3)
    compare_command.show(str(base), str(head), (), ["json"])
    assert "on both sides" not in capsys.readouterr().out


def test_two_runs_are_shown_as_advice(tmp_path, capsys):
    paths = [folder_of_runs(tmp_path / side, [1e-4]) / "run-0" for side in ("base", "head")]
    assert compare_command.show(str(paths[0]), str(paths[1]), (), []) == 0
    out = capsys.readouterr().out
    assert "compared   run-0 → run-0" in out
    assert "advisory" in out
    assert "3 a side would be judged" in out


def test_nothing_comparable_ends_with_4_and_names_the_key_and_the_way_out(tmp_path, capsys):
    base = folder_of_runs(tmp_path / "base", [1e-4])
    head = folder_of_runs(tmp_path / "head", [1e-4], environment=builders.CPU_ENVIRONMENT)
    assert compare_command.show(str(base), str(head), (), []) == 4
    assert "device is cuda in base and cpu in head: --across device allows it" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(
    "across", [["--across", "gpu", "--across", "driver"], ["--across", " gpu , driver "]]
)
def test_keys_are_allowed_by_name_repeated_or_with_commas(tmp_path, capsys, across):
    other = {
        **builders.GPU_ENVIRONMENT,
        "gpu": {**builders.GPU_ENVIRONMENT["gpu"], "name": "L40S", "driver": "1"},
    }
    base = folder_of_runs(tmp_path / "base", [1e-4])
    head = folder_of_runs(tmp_path / "head", [1e-4], environment=other)
    assert compare_command.show(str(base), str(head), (), []) == 4
    done = headbench("compare", base, head, *across)
    assert done.returncode == 0
    assert "compared across gpu: NVIDIA H200 in base, L40S in head" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "nowhere", (), []), "no run at nowhere"),
        (("{run}", "{session}", (), []), "is an ab session"),
        (("{run}", "{run}", ("gpuu",), []), "--across 'gpuu' is unknown: did you mean gpu"),
        (("{run}", "{run}", ("",), []), "--across '' is unknown"),
        (("{run}", "{run}", (), ["csv", "json"]), "--csv and --json exclude each other"),
        (("{run}", "{run}", (), ["pytest-benchmark"]), "--pytest-benchmark is a run's, not a comparison's"),
    ],
)
def test_wrong_usage_is_said_in_one_line(tmp_path, arguments, message):
    places = {
        "{run}": str(builders.stored(tmp_path)),
        "{session}": str(stored_session(tmp_path, session({builders.case(): STEADY}))),
    }
    base, head, across, formats = arguments
    with pytest.raises(UsageError, match=message) as raised:
        compare_command.show(places.get(base, base), places.get(head, head), across, formats)
    assert "\n" not in str(raised.value)


def test_verdicts_go_to_stdout_in_one_format(capsys):
    print_verdicts(session({builders.case(): STEADY}).comparisons(), ["csv"])
    assert capsys.readouterr().out.startswith("stage,variant,")


def test_the_command_compares_two_stored_runs(tmp_path):
    base = folder_of_runs(tmp_path / "base", [1e-4] * 3)
    head = folder_of_runs(tmp_path / "head", [1.03e-4] * 3)
    done = headbench("compare", base, head)
    assert (done.returncode, done.stderr) == (0, "")
    assert "slower" in done.stdout


def test_comparing_imports_neither_torch_nor_pandas_nor_scipy(tmp_path):
    import subprocess

    base = folder_of_runs(tmp_path / "base", [1e-4] * 3)
    code = (
        "import sys; from harness.compare_command import show; "
        f"show({str(base)!r}, {str(base)!r}, (), []); "
        "print([name for name in ('torch', 'pandas', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
