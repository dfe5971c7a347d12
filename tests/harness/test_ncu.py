"""Nsight Compute found, asked, and understood when it refuses."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness.sensors import ncu
from harness.sensors.ncu import Ncu, NcuUnavailable, forbidden
from tests.harness.fake_ncu import VERSION, FakeNcu, script

TOOL = Ncu("/usr/bin/ncu", "2025.3.1")


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without Nsight Compute; what is put into this folder is on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(ncu, "ELSEWHERE", ())
    return folder


def program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{says}\nEND\n")
    path.chmod(0o755)


def test_the_one_on_the_path_is_found_with_its_version(bare, tmp_path, monkeypatch):
    fake = FakeNcu(tmp_path, monkeypatch, script())
    found = Ncu.find()
    assert (found.version, found.source) == ("2025.3.1", "Nsight Compute 2025.3.1")
    assert Path(found.path).name == "ncu"
    assert fake.starts() == []


def test_of_several_elsewhere_the_newest_is_taken(bare, tmp_path, monkeypatch):
    for version in ("2024.3.2", "2025.10.0", "2025.3.1"):
        program(tmp_path / version / "ncu", VERSION.replace("2025.3.1.0", f"{version}.0"))
    monkeypatch.setattr(ncu, "ELSEWHERE", ((str(tmp_path), "*/ncu"),))
    assert Ncu.find().version == "2025.10.0"


def test_another_program_of_that_name_is_told_apart_and_the_real_one_found_behind_it(
    bare, tmp_path, monkeypatch
):
    program(bare / "ncu", "16.14.20")
    with pytest.raises(NcuUnavailable, match=rf"\({bare}/ncu is another program\)"):
        Ncu.find()
    program(tmp_path / "nsight-compute" / "2025.3.1" / "ncu", VERSION)
    monkeypatch.setattr(ncu, "ELSEWHERE", ((str(tmp_path / "nsight-compute"), "*/ncu"),))
    assert Ncu.find().path == str(tmp_path / "nsight-compute" / "2025.3.1" / "ncu")


def test_where_there_is_none_the_message_says_what_brings_it(bare):
    with pytest.raises(NcuUnavailable, match="it comes with the CUDA toolkit"):
        Ncu.find()


def test_a_program_that_cannot_be_run_is_none(bare):
    (bare / "ncu").write_bytes(b"\x7fELF broken")
    (bare / "ncu").chmod(0o755)
    with pytest.raises(NcuUnavailable, match="is another program"):
        Ncu.find()


def test_the_command_leaves_clocks_and_caches_alone_and_counts_only_where_it_is_told_to(tmp_path):
    command = TOOL.command(("a.sum", "b.avg"), tmp_path / "log.csv")
    pairs = dict(itertools.pairwise(command))
    assert pairs["--clock-control"] == pairs["--cache-control"] == "none"
    assert pairs["--profile-from-start"] == "off"
    assert pairs["--log-file"] == str(tmp_path / "log.csv")
    assert command[-2:] == ("--metrics", "a.sum,b.avg")


# The words are those that Nsight Compute prints.
PERMISSION = (
    "==PROF== Connected to process 1258 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
    "the target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n==PROF== Disconnected from process 1258\n"
)
RESOURCE = (
    "==ERROR== An error was reported by the driver:\n"
    "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) is "
    "concurrently collecting profiling data.\n"
)
UNKNOWN = (
    "==ERROR== Failed to prepare kernel for profiling\n==ERROR== Unknown Error on device 0.\n"
    '==ERROR== Failed to profile "f" in process 7\n==PROF== Trying to shutdown target application\n'
    "==ERROR== The application returned an error code (9).\n"
    "==ERROR== An error occurred while trying to profile.\n==WARNING== No kernels were profiled.\n"
)


@pytest.mark.parametrize(
    ("said", "in_words"),
    [
        (PERMISSION, "NVreg_RestrictProfilingToAdminUsers=0"),
        (PERMISSION, "--cap-add=SYS_ADMIN"),
        (RESOURCE, "dcgmi profile --pause"),
        ("==ERROR== unrecognised option '--graph-profiling'. Use --help for details.", "install a newer"),
        ("==ERROR== Failed to find metric sm__x.sum", "install a newer"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "cannot be used on this machine"),
        ("==ERROR== Failed to open the lock file /tmp/nsight-compute-lock.", "set TMPDIR"),
    ],
)
def test_a_refusal_is_told_in_words_with_the_way_out(said, in_words):
    reason = TOOL.refusal(said)
    assert reason.startswith("Nsight Compute 2025.3.1: ")
    assert in_words in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    "said",
    [
        "",
        "==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n",
        UNKNOWN,
        'a variant prints: driver resource was unavailable\n"0","ERR_NVGPUCTRPERM ==ERROR== ERR_NVGPUCTRPERM"\n',
    ],
)
def test_what_is_no_refusal_is_not_taken_for_one(said):
    assert TOOL.refusal(said) is None


def test_a_complaint_is_what_it_says_of_itself_and_not_that_the_program_under_it_failed():
    assert TOOL.complaint(UNKNOWN) == (
        "Nsight Compute 2025.3.1: Failed to prepare kernel for profiling Unknown Error on device 0. "
        'Failed to profile "f" in process 7'
    )
    assert TOOL.complaint("==ERROR== The application returned an error code (139).\n") is None


@pytest.mark.parametrize(
    ("admin_only", "capabilities", "refused"),
    [(1, "0000000000000000", True), (1, "0000000000200000", False), (0, "0000000000000000", False)],
)
def test_whether_the_driver_will_refuse_is_known_before_trying(tmp_path, admin_only, capabilities, refused):
    params, status = tmp_path / "params", tmp_path / "status"
    params.write_text(f"EnableMSI: 1\nRmProfilingAdminOnly: {admin_only}\nPreserveVideo: 0\n")
    status.write_text(f"Name:\tpython3\nCapEff:\t{capabilities}\n")
    assert (forbidden(params, status) is not None) == refused


def test_a_machine_that_does_not_tell_forbids_nothing(tmp_path):
    assert forbidden(tmp_path / "absent", tmp_path / "absent") is None
