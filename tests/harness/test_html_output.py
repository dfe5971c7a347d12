from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

import pytest

from harness import compare_command
from harness.errors import UsageError
from harness.pivot_output import Pivoting
from harness.report_command import show, show_several
from tests.harness.commands import headbench
from tests.harness.test_command_line import imported_by
from tests.results import builders


@pytest.fixture
def run(tmp_path):
    return builders.stored(tmp_path)


@pytest.fixture
def session(tmp_path):
    for side, fused_s in (("base", 1e-4), ("head", 1.1e-4)):
        of = builders.manifest(run_id=side, replicates=5, settings={"ab": {"self_check": side == "base"}})
        builders.stored(tmp_path / "session-ab", of, builders.trials(of, {"fused": fused_s}))
    return tmp_path / "session-ab"


def titles(path):
    return re.findall(r"<h1>(.*?)</h1>", path.read_text(encoding="utf-8"))


def test_a_run_becomes_one_page_and_one_line_says_so(run, tmp_path, capsys):
    show(str(run), [], html=tmp_path / "out.html")
    assert titles(tmp_path / "out.html") == [
        "Which layout of multi-head attention does the NVIDIA H200 like?"
    ]
    assert re.fullmatch(r".*/out\.html: \d+ KiB, for any browser\n", capsys.readouterr().out)


def test_a_reference_is_opened_in_one_command_without_a_gpu(tmp_path):
    done = headbench("report", "nvidia-h200/default", "--html", tmp_path / "h200.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r".*/h200\.html: 2\.\d+ MiB, for any browser\n", done.stdout)
    assert 1_000_000 < (tmp_path / "h200.html").stat().st_size < 3_000_000


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    for name in ("one.html", "other.html"):
        show(str(run), [], html=tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_a_session_becomes_a_page_of_verdicts_with_what_a_self_check_tells(session, tmp_path):
    show(str(session), [], html=tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "self-check: identical code called different in" in page
    assert 'id="forest-0"' in page


def test_several_runs_are_held_against_the_first(run, tmp_path):
    others = []
    for place in range(2):
        of = replace(builders.manifest(), run_id=f"other-{place}")
        others.append(str(builders.stored(tmp_path, of)))
    show_several([str(run), *others], [], tmp_path / "out.html")
    assert titles(tmp_path / "out.html") == [f"other-0 and other-1 against {run.name}"]


def test_a_difference_between_runs_is_allowed_on_their_page_as_in_compare(run, tmp_path):
    """Its verdicts say `--across gpu allows it`: so it must be there to be given."""
    gpu = {**builders.GPU_ENVIRONMENT["gpu"], "name": "L40S"}
    of = replace(
        builders.manifest(), run_id="elsewhere", environment={**builders.GPU_ENVIRONMENT, "gpu": gpu}
    )
    other, html = builders.stored(tmp_path, of), tmp_path / "out.html"
    said = {}
    for across in ([], ["--across", "gpu"]):
        assert headbench("report", run, other, "--html", html, *across).returncode == 0
        said[bool(across)] = html.read_text(encoding="utf-8")
    assert "incomparable" in said[False]
    assert "gpu is NVIDIA H200 in base and L40S in head: --across gpu allows it" in said[False]
    assert "compared across gpu: NVIDIA H200 in base, L40S in head" in said[True]
    assert "--across gpu allows it" not in said[True]


def test_compare_writes_the_page_that_it_would_print(run, tmp_path, capsys):
    assert compare_command.show(str(run), str(run), [], [], tmp_path / "out.html") == 0
    assert titles(tmp_path / "out.html") == [f"{run.name} against {run.name}"]
    assert capsys.readouterr().out.count("\n") == 1


def test_what_does_not_go_together_is_refused(run, tmp_path):
    html = tmp_path / "out.html"
    with pytest.raises(UsageError, match="--csv and --html exclude each other"):
        show(str(run), ["csv"], html=html)
    with pytest.raises(UsageError, match="--by head_dim goes to the terminal or --markdown: --html"):
        show(str(run), [], pivoting=Pivoting("head_dim"), html=html)
    with pytest.raises(UsageError, match="--markdown and --html exclude each other"):
        compare_command.show(str(run), str(run), [], ["markdown"], html)
    with pytest.raises(UsageError, match="2 runs go to --html alone: leave --by out"):
        show_several([str(run), str(run)], ["by"], html)
    with pytest.raises(UsageError, match="2 runs go to one page with --html FILE"):
        show_several([str(run), str(run)], [], None)
    with pytest.raises(UsageError, match="--across 'gpuu' is unknown: did you mean gpu"):
        show_several([str(run), str(run)], [], html, ["gpuu"])
    with pytest.raises(UsageError, match="--across 'gpu,torch' is between runs: name another, or leave it"):
        show(str(run), [], html=html, across=["gpu", "torch"])
    assert not html.exists()


def test_a_file_that_cannot_be_written_is_named(run, tmp_path):
    with pytest.raises(UsageError, match=r"--html .*nowhere/out.html cannot be written: No such file"):
        show(str(run), [], html=tmp_path / "nowhere" / "out.html")


@pytest.mark.parametrize("library", ["altair", "vl_convert"])
def test_without_a_library_one_line_says_how_to_install_it(run, tmp_path, monkeypatch, library):
    for name in [one for one in sys.modules if one.startswith("reports.html")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match="--html needs altair and vl-convert-python: pip install altair vl-"):
        show(str(run), [], html=tmp_path / "out.html")


@pytest.mark.parametrize(
    "damage",
    [
        {"environment": {"device": "cuda", "gpu": ["not", "a", "gpu"]}},
        {"environment": {"device": "cuda", "gpu": {"name": {"a": 1}, "memory_bytes": "many"}}},
        {"environment": {"device": "cuda", "peaks": {"bf16": {"flops_per_s": 1e15, "clock_mhz": "fast"}}}},
        {"settings": {"budget_s": {}}},
    ],
)
def test_a_damaged_manifest_is_one_line_or_a_page_never_a_traceback(tmp_path, damage):
    path = builders.stored(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | damage))
    done = headbench("report", path, "--html", tmp_path / "out.html")
    assert done.returncode in (0, 1)
    assert done.returncode == 0 or re.fullmatch(
        r"headbench: .* its manifest may be damaged .*\n", done.stderr
    )


def test_only_a_page_imports_what_draws_it(run):
    drawing = {"altair", "vl_convert", "torch", "cupy"}
    assert imported_by("report", str(run), names=drawing) == []
    assert imported_by("compare", str(run), str(run), names=drawing) == []


def test_a_page_imports_neither_torch_nor_cupy(run, tmp_path):
    html = str(tmp_path / "out.html")
    assert imported_by("report", str(run), "--html", html, names={"torch", "cupy"}) == []
