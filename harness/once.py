"""A command whose options have one value each, unless they gather several: the last one never wins in silence."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperOption


class Once(TyperCommand):
    """As Typer's, but `--by batch --by mask` is wrong usage: whoever gives both wants both."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As Typer's.

        Raises:
            BadParameter: an option that takes one value was given several.
        """
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in dict.fromkeys(given):
            if isinstance(option, TyperOption) and not option.multiple and not option.is_flag:
                times = given.count(option)
                if times > 1:
                    raise typer.BadParameter(f"it takes one value and was given {times}", ctx, option)
        return super().parse_args(ctx, args)
