"""What a pivoted run holds: which cases share a table, what each cell says, and why a cell is empty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import pivot
from reports.pivot_cells import Use
from results.figures import Counters, Gpm, Utilisation
from results.schema import Observation, Outcome
from results.store import read
from tests.reports import runs, sweeps
from tests.results import builders, h200

if TYPE_CHECKING:
    from results.run import Run


def pivoted(of: Run, by: str = "head_dim", peak: str = "datasheet") -> pivot.Pivot:
    return pivot.from_run(of, by, Use(peak))


def reasons(of: pivot.Pivot) -> list[tuple[str, tuple[str, ...], str]]:
    """(kind, whom, text) of those of the tables, then of those that hold for all."""
    told = [reason for table in of.tables for reason in table.reasons] + list(of.reasons)
    return [(one.kind, one.variants, one.text) for one in told]


def shapes(of: pivot.Pivot) -> list[tuple[str | None, tuple[pivot.Value, ...]]]:
    return [(table.stays, table.values) for table in of.tables]


def of_shapes(*heads: tuple[int, int], **case: object) -> Run:
    """A run of one variant at these (n_head, head_dim)."""
    cases = [
        builders.case("fused", n_head=n_head, head_dim=head_dim, d_model=n_head * head_dim, **case)
        for n_head, head_dim in heads
    ]
    return runs.run([builders.trial(one, n) for n in range(3) for one in cases])


def test_cells_hold_each_case_at_its_variant_and_value() -> None:
    (table,) = pivoted(h200.run()).tables
    assert (table.by, table.stays, table.values) == ("head_dim", "n_head", (32, 64, 72))
    cell = table.cells["sdpa_cudnn", 72]
    assert cell.row.record.case == h200.case("sdpa_cudnn", 72)
    assert cell.use.fraction("datasheet") == pytest.approx(0.353, abs=1e-3)
    assert cell.use.tensor_active_percent == 66.0
    assert cell.use.issued_ratio == pytest.approx(128 / 72)


def test_cells_of_several_runs_are_told_with_the_run_of_each(tmp_path) -> None:
    """Another session, maybe another GPU: whoever reads along a line must know."""
    for day, head_dims in ((1, (32, 64)), (2, (72,))):
        planned = [
            builders.case(variant, head_dim=head_dim, d_model=12 * head_dim)
            for variant in ("fused", "per_head")
            for head_dim in head_dims
        ]
        of = builders.manifest(planned, run_id=f"run-{day}", created_utc=f"2026-01-0{day}T00:00:00+00:00")
        builders.stored(tmp_path, of)
    told = sorted(one for one in reasons(pivoted(read(tmp_path))) if one[0] == "from run")
    assert told == [
        ("from run", ("fused at 32, 64", "per_head at 32, 64"), "run-1"),
        ("from run", ("fused at 72", "per_head at 72"), "run-2"),
    ]
    assert not [one for one in reasons(pivoted(read(tmp_path / "run-1"))) if one[0] == "from run"]


def test_cells_of_several_machines_are_told_with_the_machine_of_each(tmp_path) -> None:
    """Two H200s are two machines: the name alone would not tell."""
    for day, head_dim in ((1, 32), (2, 64)):
        of = builders.manifest(
            [builders.case("fused", head_dim=head_dim, d_model=12 * head_dim)],
            run_id=f"run-{day}",
            created_utc=f"2026-01-0{day}T00:00:00+00:00",
            environment={"device": "cuda:0", "gpu": {"name": "H200", "uuid": f"GPU-0000000{day}-beef"}},
        )
        builders.stored(tmp_path, of)
    told = sorted(text for kind, _, text in reasons(pivoted(read(tmp_path))) if kind == "from run")
    assert told == ["run-1 on H200 GPU-00000001", "run-2 on H200 GPU-00000002"]


def test_the_variant_with_the_highest_useful_rate_stands_first() -> None:
    (table,) = pivoted(h200.run()).tables
    assert table.variants == ("sdpa_cudnn", "sdpa_flash")


def test_numbers_ascend_and_words_keep_the_order_of_the_plan() -> None:
    assert shapes(pivoted(of_shapes((12, 72), (12, 32), (12, 64)))) == [("n_head", (32, 64, 72))]
    masks = runs.run(
        [
            trial
            for causal in (True, False)
            for trial in runs.gpu_trials({"sdpa": 1e-4}, stage="attention", causal=causal)
        ]
    )
    assert shapes(pivoted(masks, "mask")) == [(None, ("causal", "full"))]


@pytest.mark.parametrize(
    ("by", "heads", "tables"),
    [
        ("head_dim", ((12, 32), (12, 64), (12, 72)), [("n_head", (32, 64, 72))]),
        ("head_dim", ((48, 32), (24, 64), (16, 96)), [("d_model", (32, 64, 96))]),
        ("head_dim", ((6, 32), (12, 32), (6, 64), (12, 64)), [("n_head", (32, 64)), ("n_head", (32, 64))]),
        ("n_head", ((6, 128), (24, 32)), [("d_model", (6, 24))]),
        ("n_head", ((6, 64), (12, 64)), [("head_dim", (6, 12))]),
        ("d_model", ((12, 32), (12, 64)), [("n_head", (384, 768))]),
        ("d_model", ((6, 64), (12, 64)), [("head_dim", (384, 768))]),
    ],
)
def test_where_one_head_size_is_swept_a_second_stays_and_the_third_follows(
    by: str, heads: tuple[tuple[int, int], ...], tables: list[object]
) -> None:
    assert shapes(pivoted(of_shapes(*heads), by)) == tables


def test_a_shape_without_a_second_value_is_left_out_and_counted() -> None:
    found = pivoted(of_shapes((12, 32), (12, 64), (24, 64)))
    assert shapes(found) == [("n_head", (32, 64))]
    assert found.left_out == "1 group with one head_dim only: not shown"


def test_where_no_shape_has_a_second_value_each_is_shown_alone() -> None:
    found = pivoted(of_shapes((12, 64), (24, 32)), "batch")
    assert shapes(found) == [(None, (1,)), (None, (1,))]
    assert found.left_out is None


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=8, unique=True))
def test_every_case_is_in_a_table_or_was_alone(heads: list[tuple[int, int]]) -> None:
    for by in ("head_dim", "n_head", "d_model"):
        found = pivoted(of_shapes(*heads), by)
        shown = {cell.row.record.case for table in found.tables for cell in table.cells.values()}
        alone = int(found.left_out.split()[0]) if found.left_out else 0
        assert len(shown) + alone == len(heads)
        for table in found.tables:
            cases = [cell.row.record.case for cell in table.cells.values()]
            assert len({pivot.BY[by](case) for case in cases}) == len(cases)
            if len(table.values) > 1:
                assert len({pivot.BY[table.stays or ""](case) for case in cases}) == 1


def test_stages_directions_and_all_other_properties_keep_tables_apart() -> None:
    trials = [
        trial
        for head_dim in (32, 64)
        for other in ({}, {"stage": "output"}, {"direction": "backward"}, {"batch": 32}, {"causal": False})
        for trial in runs.gpu_trials({"fused": 1e-4}, head_dim=head_dim, d_model=12 * head_dim, **other)
    ]
    found = pivoted(runs.run(trials))
    assert shapes(found) == [("n_head", (32, 64))] * 5


def test_a_figure_that_no_case_has_is_told_once_for_all_tables() -> None:
    of = h200.run(observed=h200.without("counters"), settings={"counters": "gpm"})
    assert reasons(pivoted(of)) == [("no issued", (), "this run did not ask for it: --counters ncu does")]
    assert all(cell.use.tensor_active_source == "gpm" for cell in pivoted(of).tables[0].cells.values())


def test_one_reason_for_several_figures_is_told_once_and_names_its_cells() -> None:
    def refused(seen: Observation) -> Observation:
        if (seen.case.variant, seen.case.head_dim) != ("sdpa_flash", 64):
            return seen
        return replace(seen, counters=Counters(reason="crashed"), gpm=Gpm(reason="crashed"))

    told = reasons(pivoted(h200.run(observed=refused)))
    assert told == [("no active, no issued", ("sdpa_flash at 64",), "crashed")]


def test_a_missing_peak_is_the_reason_for_a_missing_useful() -> None:
    of = h200.run()
    of.ceilings = None
    assert reasons(pivoted(of, peak="burst")) == [
        ("no useful", (), "this run measured no ceilings of its GPU")
    ]
    assert reasons(pivoted(of)) == []


def test_a_case_that_failed_is_told_with_its_outcome_and_not_again_for_each_figure() -> None:
    of = h200.run()
    failed = builders.trial(h200.case("sdpa_flash", 72), outcome=Outcome.CRASHED, reason="signal 11")
    of.trials = [one for one in of.trials if one.case != failed.case] + [failed]
    assert reasons(pivoted(of)) == [("crashed", ("sdpa_flash at 72",), "signal 11")]


def test_a_variant_that_was_never_tried_has_no_line_but_its_reason() -> None:
    of = sweeps.sweep((32, 64))
    absent = [
        builders.trial(h200.case("other", n), outcome=Outcome.UNAVAILABLE, reason="needs sm_100")
        for n in (32, 64)
    ]
    of.manifest = replace(of.manifest, cases=(*of.manifest.cases, *(trial.case for trial in absent)))
    of.trials += absent
    (table,) = pivoted(of).tables
    assert table.variants == ("padding",)
    assert reasons(pivoted(of)) == [("unavailable", ("other",), "needs sm_100")]


def test_where_nothing_was_tried_the_variants_are_shown_all_the_same() -> None:
    trials = [
        builders.trial(h200.case("other", n), outcome=Outcome.UNAVAILABLE, reason="needs a GPU")
        for n in (32, 64)
    ]
    (table,) = pivoted(runs.run(trials)).tables
    assert table.variants == ("other",)


def test_two_sources_of_active_in_one_table_are_told_apart() -> None:
    def half(seen: Observation) -> Observation:
        return replace(seen, counters=Counters(reason="refused")) if seen.case.head_dim == 72 else seen

    told = {kind: whom for kind, whom, _ in reasons(pivoted(h200.run(observed=half)))}
    assert told["active by GPM"] == ("sdpa_flash at 72", "sdpa_cudnn at 72")
    assert "active by GPM" not in {kind for kind, *_ in reasons(pivoted(h200.run()))}


def test_a_window_that_eager_calls_fed_is_told_where_active_is_from_it() -> None:
    def eager(seen: Observation) -> Observation:
        return replace(seen, counters=None, utilisation=Utilisation(fed_by="eager"))

    kinds = {kind for kind, *_ in reasons(pivoted(h200.run(observed=eager, settings={"counters": "gpm"})))}
    assert "fed by eager calls" in kinds
    with_ncu = h200.run(observed=sweeps.watched(fed_by="eager"))
    assert "fed by eager calls" not in {kind for kind, *_ in reasons(pivoted(with_ncu))}


def test_company_in_a_window_is_told() -> None:
    found = reasons(pivoted(h200.run(observed=sweeps.watched(other_processes=2))))
    assert [text for kind, _, text in found if kind == "not alone"] == [
        "2 other processes used the GPU in its window: what is told of the whole GPU includes that"
    ]


def test_a_reason_that_holds_at_many_values_names_only_their_ends() -> None:
    def refused(one: Observation) -> Observation:
        return replace(one, counters=Counters(reason="lost")) if one.case.head_dim > 32 else one

    of = sweeps.sweep(range(16, 129, 8))
    of.observations = [refused(one) for one in of.observations]
    assert ("no issued", ("padding at 40 to 128 (12 values)",), "lost") in reasons(pivoted(of))
