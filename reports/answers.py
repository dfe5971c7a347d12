"""What a run answers, stage by stage, in sentences: which variant leads, by how much, why, and how sure that is.

Everything is derived from the report's groups; a sentence that its numbers do not carry is left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports import units
from reports.columns import UNSURE_MARK, in_words, telling
from reports.text import conjoined, listing, plain
from results.decomposition import decompose
from results.ranking import apart
from results.schema import STRIDED
from results.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reports.content import Fastest, Report
    from results.ranking import Standing
    from results.schema import Case


@dataclass(frozen=True, slots=True)
class Answer:
    """One stage in one direction: `which` leads, `by` how much, `why`, `sure` how sure; each a sentence or nothing."""

    stage: str
    direction: str
    which: str
    by: str | None
    why: tuple[str, ...]
    sure: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """All there are, in order."""
        return tuple(one for one in (self.which, self.by, *self.why, self.sure) if one)


@dataclass(frozen=True, slots=True)
class _Group:
    """A group with a time: its winner, and all that cannot be told from it, the winner first.

    `unranked` says that others have times, too, implausible ones or in other modes.
    """

    best: Fastest
    leaders: tuple[Standing, ...]
    baseline: Standing | None
    unranked: bool

    @property
    def case(self) -> Case:
        return self.best.row.record.case


def answers(report: Report) -> tuple[Answer, ...]:
    """One for each stage and direction with a time, in plan order."""
    found: dict[tuple[str, str], list[_Group]] = {}
    best_of = {best.row.record.case.group: best for best in report.fastest}
    for group in report.groups:
        if best := best_of.get(group.case.group):
            leaders = (best.row, *(row for row in group.rows if row.level))
            baseline = next((row for row in group.rows if row.is_baseline and row.time), None)
            unranked = any(row.record.estimates and (row.implausible or not row.time) for row in group.rows)
            key = (group.case.stage, group.case.direction)
            found.setdefault(key, []).append(_Group(best, leaders, baseline, unranked))
    return tuple(_answer(*key, groups) for key, groups in found.items())


def _answer(stage: str, direction: str, groups: Sequence[_Group]) -> Answer:
    return Answer(
        plain(stage), plain(direction), _which(groups), _by(groups), tuple(_why(groups)), _sure(groups)
    )


def _which(groups: Sequence[_Group]) -> str:
    """The variant that leads in most shapes; then, of the shapes that are left, the one that leads in most."""
    left, told, said = list(groups), list[str](), ""
    while left:
        name = _leading(left)
        led = [group for group in left if any(row.variant == name for row in group.leaders)]
        left = [group for group in left if group not in led]
        where = _where(led, groups) if left or not told else _where(led, groups, rest=True)
        verb = _verb(led)
        subject = plain(name) if verb == said else f"{plain(name)} {verb}"
        said = verb
        told.append(f"{subject} {where}" if told else f"{subject} {where}{_beside(name, led)}")
    return "; ".join(told)


def _leading(groups: Sequence[_Group]) -> str:
    """Who is fastest or level in most of these; of several, who is fastest in most; then by name."""
    leads = Counter(row.variant for group in groups for row in group.leaders)
    wins = Counter(group.best.row.variant for group in groups)
    return min(leads, key=lambda name: (-leads[name], -wins[name], name))


def _verb(led: Sequence[_Group]) -> str:
    """What the variant that leads in these shapes does there; alone it is the fastest of nothing."""
    if any(group.best.runner_up for group in led):
        return "is the fastest"
    return "alone can be ranked" if any(group.unranked for group in led) else "alone has a time"


def _beside(name: str, led: Sequence[_Group]) -> str:
    """`, given strided activations, level with sdpa_cudnn in 4 of them`, as far as it holds."""
    peers = Counter(row.variant for group in led for row in group.leaders if row.variant != name)
    told = [
        plain(peer) + ("" if len(led) == 1 else f" in {_so_many(times, len(led))} of them")
        for peer, times in peers.most_common()
    ]
    arrivals = {row.record.arrives for group in led for row in group.leaders if row.variant == name}
    given = f", given {STRIDED} activations" if arrivals == {STRIDED} else ""
    return given + (f", level with {', '.join(told)}" if told else "")


def _so_many(times: int, of: int) -> str:
    return str(times) if times < of else "both" if of == 2 else "all"


def _where(these: Sequence[_Group], among: Sequence[_Group], *, rest: bool = False) -> str:
    """In words that hold for these shapes and for none of the others: `at batch 32`, `in 3 of 8 shapes`.

    `rest`: all others have been told of.
    """
    if len(these) == len(among):
        return "in the one shape measured" if len(among) == 1 else f"in {_all_shapes(len(among))}"
    for title, text in telling([group.case for group in among]):
        inside = dict.fromkeys(text(group.case) for group in these)
        if inside.keys().isdisjoint(text(group.case) for group in among if group not in these):
            return f"at {title} {conjoined(list(inside))}"
    if len(these) == 1:
        return f"at {_shape(these[0].case, among)}"
    return f"in the other {len(these)}" if rest else f"in {len(these)} of {counted(len(among), 'shape')}"


def _all_shapes(number: int) -> str:
    return "both shapes" if number == 2 else f"all {counted(number, 'shape')}"


def _shape(case: Case, among: Sequence[_Group]) -> str:
    """`batch 1, d_model 864 = 12×72`: what tells this shape from the others."""
    return in_words(case, telling([group.case for group in among]))


def _by(groups: Sequence[_Group]) -> str | None:
    """How many times as fast as the baseline the winners are, by batch where there are several; else their leads."""
    against = {group.baseline.variant for group in groups if group.baseline}
    known = [group for group in groups if group.best.row.speedup and not group.best.row.is_baseline]
    if len(against) != 1 or not known:
        return _leads(groups)
    (first, of_first), *more = _by_batch(known)
    told = [f"{_speedups(of_first)} as fast as {plain(against.pop())}{first}"]
    return f"the fastest is {', '.join([*told, *(f'{_speedups(of)}{at}' for at, of in more)])}"


def _speedups(groups: Sequence[_Group]) -> str:
    return units.ratio_range(group.best.row.speedup for group in groups)


def _leads(groups: Sequence[_Group]) -> str | None:
    """By how much the runners-up trail, those that are level with the winner left out."""
    behind = [group.best for group in groups if group.best.lead and not group.best.level]
    leads = [best.lead for best in behind]
    names = tuple(dict.fromkeys(best.runner_up.variant for best in behind if best.runner_up))
    return f"the runner-up ({listing(names)}) takes {units.ratio_range(leads)} the time" if leads else None


def _by_batch(groups: Sequence[_Group]) -> list[tuple[str, list[_Group]]]:
    """The groups of each batch with ` at batch N`; all at once with nothing where the batch is one."""
    batches = sorted({group.case.batch for group in groups})
    if len(batches) == 1:
        return [("", list(groups))]
    return [(f" at batch {one}", [group for group in groups if group.case.batch == one]) for one in batches]


def _why(groups: Sequence[_Group]) -> Iterator[str]:
    """Where Python calls, what the winner saves: in a middling shape of the least batch and of the largest."""
    of_batch = _by_batch([group for group in groups if _saved(group)])
    for _, of in of_batch if len(of_batch) < 3 else (of_batch[0], of_batch[-1]):
        middle = sorted(of, key=lambda group: _saved(group) or ())[(len(of) - 1) // 2] if of else None
        if middle and (saved := _saved(middle)):
            yield _taken_apart(middle, saved, groups)


def _taken_apart(group: _Group, saved: tuple[float, float, float], among: Sequence[_Group]) -> str:
    assert group.baseline is not None
    winner, baseline = group.best.row, group.baseline
    whole, in_kernels_s, waiting_s = saved
    mark = "" if apart(*(row.record.estimates["eager"] for row in (winner, baseline))) else UNSURE_MARK
    counts = [row.record.dispatch.launches if row.record.dispatch else None for row in (baseline, winner)]
    # A replayed graph launches once what it runs: so they are named for what they are, not for how they came.
    runs = f" ({counts[0]:g} kernels and copies against {counts[1]:g})" if None not in counts else ""
    at = f" at {_shape(group.case, among)}" if len(among) > 1 else ""
    again = (in_kernels_s < 0) != (waiting_s < 0)
    return (
        f"called from Python{at}, {plain(winner.variant)} is {mark}{units.ratio(whole)} as fast as "
        f"{plain(baseline.variant)}: it {_change(in_kernels_s)} in kernels and "
        f"{_change(waiting_s, mark, verb=again)} in launches and gaps{runs}"
    )


def _change(saved_s: float, mark: str = "", *, verb: bool = True) -> str:
    """`saves 120 µs`, `loses 3.10 µs`; the verb is left out where it would stand twice."""
    time = f"{mark}{units.duration(abs(saved_s), 3)}"
    return f"{'loses' if saved_s < 0 else 'saves'} {time}" if verb else time


def _saved(group: _Group) -> tuple[float, float, float] | None:
    """Baseline over winner in eager time; then the seconds saved in kernels, and in what waits for them.

    Differences, because they add up: of 36 launches against 1 a quotient of shares would tell next to nothing.
    """
    if group.baseline is None or group.baseline is group.best.row:
        return None
    winner, baseline = decompose(group.best.row.record), decompose(group.baseline.record)
    times = (winner.eager_s, winner.busy_s, baseline.eager_s, baseline.busy_s)
    if not all(times):
        return None
    eager_s, busy_s, base_eager_s, base_busy_s = (float(one or 0.0) for one in times)
    in_kernels_s = base_busy_s - busy_s
    return base_eager_s / eager_s, in_kernels_s, base_eager_s - eager_s - in_kernels_s


def _sure(groups: Sequence[_Group]) -> str:
    """In how many shapes the intervals keep the winner apart from everything else, if all is of one run."""
    contested = [group for group in groups if group.best.runner_up]
    if not contested:
        return "nothing stood beside it: how fast it is, only other variants would tell"
    if all(group.best.row.time is None or group.best.row.time.half_width is None for group in contested):
        return "one replicate: no intervals, the order may be chance"
    clear = sum(group.best.clear for group in contested)
    foreign = sum(group.best.of_two_runs for group in contested)
    if len(contested) == 1:
        if foreign:
            return "its runner-up is another run's: which of them is the faster is not sure"
        return "its interval meets no other's" if clear else "its interval meets another's: call them level"
    number = len(contested)
    where = _all_shapes(number) if clear == number else f"{clear} of {counted(number, 'shape')}"
    few = ", of two processes," if _few(contested) else ""
    apart = f"the winner's 95 % interval{few} meets no other's in {where}"
    return (
        f"{apart}; in {foreign} the runner-up is another run's, which decides nothing" if foreign else apart
    )


def _few(groups: Sequence[_Group]) -> bool:
    """Whether no winner's time is of more than two processes, whose intervals are seldom narrow."""
    return max(group.best.row.time.replicates for group in groups if group.best.row.time) <= 2
