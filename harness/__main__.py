"""`python -m harness`, also installed as `headbench`: check the installation, run the command, end with its code."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from pathlib import Path

from harness.errors import INTERRUPTED

SIBLINGS = ("kernels", "variants", "results", "reports")


def main() -> None:
    """The console script. Every fault a user can cause ends in one line on stderr."""
    foreign = foreign_package(Path(__file__).resolve().parent.parent)
    if foreign:
        sys.exit(_fail(foreign, 2))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows ? for × and goes on
    try:
        code = _run()
    except KeyboardInterrupt:
        code = _fail("interrupted before anything was measured", INTERRUPTED)
    except BrokenPipeError:
        code = 0  # the reader of our output went away, as in `| head`
        _drop_output()
    except OSError as error:
        code = _fail(f"the system refused: {error}", 1)
        _drop_output()
    sys.exit(code)


def _run() -> int:
    from typer.exceptions import TyperException

    from harness.cli import app
    from harness.errors import HeadbenchError

    try:
        code = app(standalone_mode=False, prog_name="headbench") or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return int(code)
    except TyperException as error:
        return _fail(f"{_message(error)} (headbench --help tells more)", 2)
    except HeadbenchError as error:
        return _fail(str(error), error.exit_code)


def _drop_output() -> None:
    """Point stdout at nothing, so that Python's own exit does not stumble over what is still in its buffer."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def foreign_package(root: Path) -> str | None:
    """One line when a package of ours would be imported from elsewhere: the five names are common."""
    for name in SIBLINGS:
        spec = importlib.util.find_spec(name)
        ours = root / name / "__init__.py"
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found != ours:
            return (
                f"package {name!r} would be imported from {found or 'nowhere'}, headbench's own is {ours}: "
                f"run from another folder, or install headbench in a virtual environment of its own"
            )
    return None


def _message(error: Exception) -> str:
    text = str(getattr(error, "format_message", error.__str__)())
    return " ".join(text.split())


def _fail(message: str, code: int) -> int:
    # One line, whatever a file's name or a plugin's message holds.
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(message.split()))
    if sys.stderr is not None:
        print(f"headbench: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
