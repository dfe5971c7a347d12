"""The commands that answer questions rather than measure what is named: `claims` and `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness import options


def claims(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which, as C2 C8.  [default: all thirteen]", metavar="[CLAIM]...", show_default=False
        ),
    ] = None,
    recorded: options.Recorded = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first look: three replicates of fewest samples, a short training."),
    ] = False,
    device: options.Device = None,
    out: options.Out = None,
    json: options.Json = False,
    markdown: options.Markdown = False,
) -> None:
    """Judge the claims of the lesson on multi-head attention: supported, partly, refuted, or not measurable here.

    Each is measured by an experiment of its own and judged by a rule declared beforehand, whatever is found: the exit
    code is 0 for any verdict.
    """
    from harness import claims_command

    asked = claims_command.Options(
        claims=tuple(ids or ()),
        recorded=recorded,
        quick=quick,
        device=device,
        out=out,
        formats=tuple(options.chosen(json=json, markdown=markdown)),
    )
    raise typer.Exit(claims_command.show(asked))


def explain(
    variant: Annotated[str, typer.Argument(help="A variant's name, or STAGE/NAME.")],
    against: Annotated[
        str | None,
        options.optional("--against", "Another of the same stage, to be shown beside it.", "VARIANT"),
    ] = None,
    recorded: options.Recorded = None,
    json: options.Json = False,
    markdown: options.Markdown = False,
) -> None:
    """Show where a variant's time goes: launches, gaps, idle SMs, padding, useful work, as bars that add up.

    Looks at a recorded run, the newest one unless told; --counters ncu on that run makes the bars finest.
    """
    from harness import explain_command

    explain_command.show(variant, against, recorded, options.chosen(json=json, markdown=markdown))
