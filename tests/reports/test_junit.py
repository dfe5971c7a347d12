from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Tree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.junit import CaseResult, junit, to_junit
from results.schema import Outcome
from tests.reports import runs

if TYPE_CHECKING:
    from results.run import Run


@cache
def schema():
    """JUnit's structure; a test machine that has only what headbench itself needs skips what asks for it."""
    return pytest.importorskip("xmlschema").XMLSchema(Path(__file__).parents[1] / "data" / "junit.xsd")


@pytest.mark.parametrize("of", [runs.gpu_run(), runs.cpu_run(), runs.every_outcome(), runs.run([])])
def test_any_run_is_valid_against_the_schema(of: Run) -> None:
    schema().validate(to_junit(of))


def test_each_outcome_ends_as_a_ci_expects_it() -> None:
    (suite,) = Tree.fromstring(to_junit(runs.every_outcome()))
    ended = {case.get("name"): [child.tag for child in case if child.tag != "system-out"] for case in suite}
    assert ended == {
        "per_head": [],
        "fused": [],
        "uncaptured": [],
        "is_incorrect": ["failure"],
        "is_crashed": ["error"],
        "is_timed_out": ["error"],
        "is_out_of_memory": ["skipped"],
        "is_unsupported": ["skipped"],
        "is_unavailable": ["skipped"],
        "is_not_measured": ["skipped"],
    }
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "10", "failures": "1", "errors": "2", "skipped": "4"}


def test_a_failure_says_why_and_a_pass_how_long_it_takes() -> None:
    (suite,) = Tree.fromstring(to_junit(runs.every_outcome()))
    told = {case.get("name"): case for case in suite}
    failure = told["is_incorrect"].find("failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("incorrect", "incorrect: why: incorrect")
    assert "isolated: 0.000191382 s from 3 replicates" in (told["fused"].findtext("system-out") or "")
    assert float(told["fused"].get("time", "")) == pytest.approx(3 * 0.7)


def test_one_replicate_is_one() -> None:
    (suite,) = Tree.fromstring(to_junit(runs.run(runs.gpu_trials({"fused": 1e-4}, replicates=1))))
    told = suite[0].findtext("system-out", "").splitlines()
    assert told
    assert all(line.endswith(" s from 1 replicate") for line in told)


def test_every_group_is_a_suite_in_plan_order() -> None:
    root = Tree.fromstring(to_junit(runs.gpu_run()))
    assert [suite.get("name") for suite in root] == [
        "qkv/forward/b1-t1024-h12x64-causal-bf16",
        "qkv/forward/b32-t1024-h12x64-causal-bf16",
        "attention/forward/b32-t1024-h12x64-causal-bf16",
    ]
    assert root.get("tests") == str(sum(len(suite) for suite in root))


@given(st.text(), st.text(st.characters(codec=None)), st.sampled_from(["failure", "error", "skipped", None]))
def test_whatever_a_variant_printed_makes_valid_xml(name: str, reason: str, ended: str | None) -> None:
    text = junit(name, [CaseResult(reason, name, ended, "kind", reason, 0.1, output=reason)])
    text.encode()
    schema().validate(text)


def test_what_xml_cannot_hold_is_replaced_and_the_rest_kept() -> None:
    text = junit("run", [CaseResult("group", "a\x1b[31m<b> & \ud800 é\ufffe", "failure", "crashed", "\0")])
    (case,) = Tree.fromstring(text)[0]
    assert (
        case.get("name")
        == "a\N{REPLACEMENT CHARACTER}[31m<b> & \N{REPLACEMENT CHARACTER} é\N{REPLACEMENT CHARACTER}"
    )


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200f", "\u2028", "\ufeff"])
def test_what_a_viewer_would_obey_is_replaced(sign: str) -> None:
    text = junit(f"run{sign}", [CaseResult(sign, f"a{sign}b", "error", sign, f"why{sign}", output=sign)])
    assert sign not in text
    assert "a\N{REPLACEMENT CHARACTER}b" in text


def test_every_outcome_but_these_is_skipped() -> None:
    failing = {outcome for outcome in Outcome if outcome.failed}
    of = runs.run([runs.failed("bad", outcome, "why", batch=n + 1) for n, outcome in enumerate(Outcome) if n])
    root = Tree.fromstring(to_junit(of))
    red = [case for suite in root for case in suite if case.find("skipped") is None]
    assert len(red) == len(failing)
