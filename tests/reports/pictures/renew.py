"""Draw the README's pictures anew, and say in its alt texts what they show.

python -m tests.reports.pictures.renew
"""

from __future__ import annotations

import re
from pathlib import Path

from reports.pictures.draw import drawn
from results.store import read_each

ROOT = Path(__file__).parents[3]


def renew(root: Path = ROOT) -> None:
    """Write every picture of the committed H200 runs under `root`, and its finding into the README there."""
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    for one in drawn(read_each("nvidia-h200")):
        if one.svg is None:
            raise SystemExit(f"{one.name} cannot be drawn: {one.reason}")
        (root / "docs" / "pictures" / one.file).write_text(one.svg, encoding="utf-8")
        shown = re.compile(rf"!\[[^\]]*\]\(docs/pictures/{re.escape(one.file)}\)")
        text = shown.sub(lambda _, one=one: f"![{one.finding}](docs/pictures/{one.file})", text)
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    renew()
