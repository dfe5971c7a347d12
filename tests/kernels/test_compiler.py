"""Compiling: what a source is, what it is compiled for, and when an earlier result will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import compiler
from kernels.compiler import Build, KernelError, architecture, compile_for, find, with_includes

TWICE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= FACTOR; }\n'


def build(folder: Path, text: str = TWICE, *defines: str) -> Build:
    file = folder / "twice.cu"
    file.write_text(text)
    return Build(file, defines or ("FACTOR=2",))


def test_hopper_alone_is_named_with_its_own_instructions():
    assert [architecture(c) for c in ((8, 0), (8, 9), (9, 0), (12, 0))] == [
        "sm_80",
        "sm_89",
        "sm_90a",
        "sm_120",
    ]


def test_a_kernel_of_ours_is_found_by_name_and_anybodys_by_path(tmp_path):
    assert find("timing").name == "timing.cu"
    mine = build(tmp_path).file
    assert find(mine) == find(str(mine)) == mine


@pytest.mark.parametrize("asked", ["no_such_kernel", "/no/such/file.cu", Path("/no/such/file.cu")])
def test_a_kernel_that_is_not_there_is_named_with_those_that_are(asked):
    with pytest.raises(
        KernelError, match=r"no_such_kernel\.cu is not a file|file\.cu is not a file"
    ) as error:
        find(asked)
    assert "flash_portable" in str(error.value)


def test_a_file_beside_the_source_is_pasted_in_once_and_lines_keep_their_numbers(tmp_path):
    (tmp_path / "part.cuh").write_text("// part\n")
    file = tmp_path / "whole.cu"
    file.write_text('#include <cuda_fp16.h>\n#include "part.cuh"\n#include "part.cuh"\nint x;\n')
    text = with_includes(file)
    assert text.count("// part") == 1
    assert "#include <cuda_fp16.h>" in text
    assert text.index('#line 1 "part.cuh"') < text.index("// part") < text.index('#line 3 "whole.cu"')


def test_an_include_that_is_not_there_is_named_with_who_asks(tmp_path):
    with pytest.raises(KernelError, match=r'twice\.cu includes "gone\.cuh", which is not beside it'):
        with_includes(build(tmp_path, '#include "gone.cuh"\n').file)


@pytest.mark.parametrize("included", [False, True])
def test_a_source_that_is_no_text_is_refused_by_name(tmp_path, included):
    odd = tmp_path / "odd.cuh"
    odd.write_bytes(b"\xff\xfe\x00")
    file = build(tmp_path, '#include "odd.cuh"\n').file if included else odd
    with pytest.raises(KernelError, match=r"odd\.cuh cannot be read: 'utf-8' codec"):
        with_includes(file)


@pytest.mark.parametrize("define", ["", "=", "2", "HEAD DIM=3", "-O3", "A=1\n#error", 3, "é=1"])
def test_a_define_that_is_no_macro_is_told_before_anything_is_compiled(tmp_path, define):
    """An empty one would take the option after it for its name."""
    wrong = Build(build(tmp_path).file, ("FACTOR=2", define))
    with pytest.raises(KernelError, match=r"twice\.cu: .* is no macro: a string like 'HEAD_DIM=64' would do"):
        compile_for(wrong, "sm_90a")


@pytest.mark.parametrize("define", ["FACTOR", "FACTOR=", "FACTOR=2", "_f2=(a == b)"])
def test_macros_with_a_value_and_without_one_are_none_of_our_business(define):
    assert compiler._MACRO.fullmatch(define)


def test_the_same_text_options_and_architecture_are_compiled_once(tmp_path, nvrtc, monkeypatch):
    first = compile_for(build(tmp_path), "sm_80")
    monkeypatch.setattr(compiler, "_compile", lambda *_: pytest.fail("it is compiled again"))
    assert compile_for(build(tmp_path), "sm_80") == first


@pytest.mark.parametrize("change", ["text", "define", "architecture", "include"])
def test_any_change_is_compiled_anew(tmp_path, nvrtc, change, monkeypatch):
    (tmp_path / "part.cuh").write_text("// one\n")
    text = '#include "part.cuh"\n' + TWICE
    compile_for(build(tmp_path, text), "sm_80")
    compiled = []
    real = compiler._compile
    monkeypatch.setattr(compiler, "_compile", lambda *given: compiled.append(1) or real(*given))
    if change == "include":
        (tmp_path / "part.cuh").write_text("// two\n")
    changed = build(
        tmp_path, text + "// more\n" * (change == "text"), "FACTOR=3" if change == "define" else "FACTOR=2"
    )
    compile_for(changed, "sm_89" if change == "architecture" else "sm_80")
    assert compiled


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path, nvrtc, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compile_for(build(tmp_path), "sm_80").cubin.startswith(b"\x7fELF")


def test_a_fault_in_the_source_is_told_with_file_line_and_architecture(tmp_path, nvrtc):
    with pytest.raises(
        KernelError, match=r"(?s)twice\.cu FACTOR=2 does not compile with -arch=sm_80:.*twice\.cu\(2\)"
    ):
        compile_for(build(tmp_path, "\nnonsense;\n"), "sm_80")


def test_a_fault_in_an_included_file_is_told_where_it_is(tmp_path, nvrtc):
    (tmp_path / "part.cuh").write_text("\n\nnonsense;\n")
    with pytest.raises(KernelError, match=r"part\.cuh\(3\)"):
        compile_for(build(tmp_path, '#include "part.cuh"\n'), "sm_80")
