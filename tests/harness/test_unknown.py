"""What is said of a name that nothing has: the nearest ones, or all that there are."""

from __future__ import annotations

import pytest

from harness.errors import unknown


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (["sdpa", "fa4"], "variant 'zzz' is unknown: sdpa, fa4 are known"),
        (["sdpa"], "variant 'zzz' is unknown: sdpa is known"),
        (["zz"], "variant 'zzz' is unknown: did you mean zz?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_or_all(known, told):
    assert str(unknown("variant", "zzz", known)) == told
