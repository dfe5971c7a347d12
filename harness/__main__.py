"""`python -m harness`, also installed as `headbench`: check the installation, run the command, end with its code."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

SIBLINGS = ("kernels", "variants", "results", "reports")


def main() -> None:
    """The console script. Every fault a user can cause ends in one line on stderr."""
    foreign = foreign_package(Path(__file__).resolve().parent.parent)
    if foreign:
        sys.exit(_fail(foreign, 2))
    from typer.exceptions import TyperException

    from harness.cli import app
    from harness.errors import INTERRUPTED, HeadbenchError

    try:
        code = app(standalone_mode=False, prog_name="headbench") or 0
        sys.stdout.flush()
    except TyperException as error:
        code = _fail(f"{_message(error)} (headbench --help tells more)", 2)
    except HeadbenchError as error:
        code = _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): point stdout at nothing, so that Python's exit is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


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
    print(f"headbench: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
