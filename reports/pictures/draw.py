"""Every picture that recorded runs can give, into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.pictures.calls import NAME as CALLS
from reports.pictures.calls import calls_picture
from reports.pictures.kernels import NAME as KERNELS
from reports.pictures.kernels import kernels_picture
from reports.pictures.picture import Picture, to_svg
from reports.pictures.tensor_use import NAME as TENSOR_USE
from reports.pictures.tensor_use import tensor_use_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from results.run import Run

PICTURES: dict[str, Callable[[Run], Picture | str]] = {
    TENSOR_USE: tensor_use_picture,
    CALLS: calls_picture,
    KERNELS: kernels_picture,
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """One picture: its file's name and text, and the run that it shows; or the reason why there is none."""

    name: str
    run: str | None = None
    finding: str | None = None
    svg: str | None = None
    reason: str | None = None

    @property
    def file(self) -> str:
        """`tensor_use.svg`."""
        return f"{self.name}.svg"


def drawn(runs: Sequence[Run]) -> Iterator[Drawn]:
    """Every picture there is, each of the run that has most to show in it, and of several the newest."""
    newest_first = sorted(runs, key=lambda run: run.manifest.created_utc, reverse=True)
    for name, make in PICTURES.items():
        made = [(run, make(run)) for run in newest_first]
        found = [(run, picture) for run, picture in made if isinstance(picture, Picture)]
        if found:
            run, picture = max(found, key=lambda one: len(one[1].rows))
            yield Drawn(name, run.path.name, picture.finding, to_svg(picture, run.manifest.run_id))
        else:
            yield Drawn(
                name, reason=next((why for _, why in made if isinstance(why, str)), "there is no run")
            )
