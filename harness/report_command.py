"""`report`: a stored run to the terminal, or exported to stdout."""

from __future__ import annotations

import sys

from harness.errors import HeadbenchError, UsageError
from results.store import Run, StoreError, read


def show(where: str, formats: list[str]) -> None:
    """Print the run; `formats` holds at most one of csv, json and markdown.

    Raises:
        UsageError: there is no such run, it cannot be read, or two formats were asked for.
    """
    if len(formats) > 1:
        raise UsageError(f"--{' and --'.join(formats)} exclude each other: one would do")
    try:
        run = read(where)
    except StoreError as error:
        raise UsageError(str(error)) from error
    if not formats:
        print_report(run)
        return
    from reports.export import to_csv, to_json, to_markdown

    writers = {"csv": to_csv, "json": to_json, "markdown": to_markdown}
    sys.stdout.write(writers[formats[0]](run))


def print_report(run: Run) -> None:
    """The run's tables on stdout, as wide as the terminal, or 100 columns where there is none.

    Raises:
        HeadbenchError: what is stored cannot be shown.
    """
    from reports.content import from_run
    from reports.terminal import new_console, render

    try:
        render(from_run(run), new_console())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # What is plain JSON in a manifest can hold anything once somebody has edited it.
        raise HeadbenchError(
            f"{run.path} cannot be shown, its manifest may be damaged ({error!r})"
        ) from error
