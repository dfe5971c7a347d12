"""The commands that look at what is stored: `report`, `compare`, and `results promote`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import options


def report(
    run: Annotated[
        list[str],
        typer.Argument(
            help="A run's folder or id, `latest`, a folder of runs, or a reference's name; several with --html: the "
            "others against the first."
        ),
    ],
    csv: options.Csv = False,
    json: options.Json = False,
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    pytest_benchmark: Annotated[
        bool, typer.Option("--pytest-benchmark", help="The JSON of pytest-benchmark.")
    ] = False,
    github_action_benchmark: Annotated[
        bool, typer.Option("--github-action-benchmark", help="The JSON customSmallerIsBetter.")
    ] = False,
    parquet: Annotated[
        Path | None, options.path("--parquet", "A row per case, into this file, as Parquet.", "FILE")
    ] = None,
    html: options.Html = None,
    svg: Annotated[
        Path | None,
        options.path(
            "--svg", "Pictures of it, or of the best of a folder of runs, into this folder.", "FOLDER"
        ),
    ] = None,
    by: options.By = None,
    show: options.Show = None,
    peak: options.Peak = None,
    across: options.Across = None,
) -> None:
    """Show a stored run, or the verdicts of an ab session, again; or export them to stdout."""
    from harness import report_command
    from harness.request import split_values

    allowed = split_values("--across", across)
    formats = options.chosen(
        csv=csv, json=json, markdown=markdown, junit=junit, pytest_benchmark=pytest_benchmark,
        github_action_benchmark=github_action_benchmark,
    )  # fmt: skip
    if svg is not None:
        from harness import svg_command

        others = _given(parquet=parquet, html=html, by=by, show=show, peak=peak, across=across)
        svg_command.draw(run, svg, [*formats, *others])
    elif len(run) > 1:
        others = _given(parquet=parquet, by=by, show=show, peak=peak)
        report_command.show_several(run, [*formats, *others], html, allowed)
    else:
        from harness.pivot_output import Pivoting

        report_command.show(run[0], formats, parquet, Pivoting(by, show, peak), html, allowed)


def _given(**values: object) -> list[str]:
    return options.chosen(**{name: value is not None for name, value in values.items()})


def compare(
    base: Annotated[
        str,
        typer.Argument(help="A run's folder or id, `latest`, a folder of runs, or a reference's name."),
    ],
    head: Annotated[str, typer.Argument(help="The run, or the runs, to judge.")],
    across: options.Across = None,
    csv: options.Csv = False,
    json: options.Json = False,
    markdown: options.Markdown = False,
    junit: options.Junit = False,
    html: options.Html = None,
) -> None:
    """Compare recorded runs, a verdict per case: advisory, for sessions differ by more than their processes do."""
    from harness import compare_command
    from harness.request import split_values

    formats = options.chosen(csv=csv, json=json, markdown=markdown, junit=junit)
    raise typer.Exit(compare_command.show(base, head, split_values("--across", across), formats, html))


def promote(
    run: Annotated[str, typer.Argument(help="A run's folder or id, or `latest`.")],
    name: Annotated[str, typer.Argument(help="What the reference is to be called.")],
) -> None:
    """Make a committed reference of a run; one that is dirty, unverified or partial is refused."""
    from harness import promote_command

    promote_command.make_reference(run, name)
