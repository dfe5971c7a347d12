"""`python -m harness`, also installed as `headbench`: check the installation, run the command, end with its code."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.errors import INTERRUPTED, printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

SIBLINGS = ("kernels", "variants", "results", "reports")
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """The console script. Every fault a user can cause ends in one line on stderr."""
    if foreign := foreign_package():
        ours = ROOT / foreign[0] / "__init__.py"
        told = f"package {foreign[0]!r} would be imported from {foreign[1]}, headbench's own is {ours}"
        way_out = "run from another folder, or install headbench in a virtual environment of its own"
        sys.exit(_fail(f"{told}: {way_out}", 2))
    if importlib.util.find_spec("typer") is None:
        way_out = (
            f"activate the virtual environment that headbench was installed in, or pip install -e {ROOT}"
        )
        sys.exit(_fail(f"typer is not installed for {sys.executable}: {way_out}", 2))
    sys.stdout, sys.stderr = _patient(sys.stdout), _patient(sys.stderr)
    try:
        code = _run()
    except KeyboardInterrupt:
        code = _fail("interrupted before anything was measured", INTERRUPTED)
    except OSError as error:
        code = _fail(f"the system refused: {error}", 1)
        _drop_output()
    sys.exit(code)


class Dropping(io.FileIO):
    """Output whose reader may go away, as in `| head`: the rest is dropped, and the exit code is what it was."""

    def write(self, data: Buffer, /) -> int:
        """As of any file."""
        try:
            return super().write(data)
        except BrokenPipeError:
            _point_at_nothing(self.fileno())
            return super().write(data)


def _patient(stream: TextIO) -> TextIO:
    """The same stream; an ASCII terminal shows ? for × and goes on, a reader that goes away ends nothing."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream  # none at all, or a test's
    if stream not in (sys.__stdout__, sys.__stderr__):
        stream.reconfigure(errors="replace")
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(Dropping(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _run() -> int:
    import typer.main
    from typer.exceptions import TyperException

    from harness.cli import app
    from harness.errors import HeadbenchError

    try:
        code = 0
        try:
            # Not `app()`: it makes codes of its own, without a word, of Ctrl-C and of a reader that went away.
            with typer.main.get_command(app).make_context("headbench", sys.argv[1:]) as context:
                context.command.invoke(context)
        except typer.Exit as ended:
            code = ended.exit_code
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except TyperException as error:
        return _fail(f"{_message(error)} (python -m harness --help tells more)", 2)
    except HeadbenchError as error:
        return _fail(str(error), error.exit_code)


def _drop_output() -> None:
    """Point stdout at nothing, so that Python's own exit does not stumble over what is still in its buffer."""
    if sys.stdout is not None:
        _point_at_nothing(sys.stdout.fileno())


def _point_at_nothing(file: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), file)


def foreign_package() -> tuple[str, str] | None:
    """(name, where it lies) of a package that would be imported in place of ours: the five names are common."""
    for name in SIBLINGS:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found != ROOT / name / "__init__.py":
            return name, str(found or "nowhere")
    return None


def _message(error: Exception) -> str:
    text = str(getattr(error, "format_message", error.__str__)())
    return " ".join(text.split())


def _fail(message: str, code: int) -> int:
    if sys.stderr is not None:
        print(f"headbench: {printable(message)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
