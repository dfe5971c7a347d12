import json
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from results.codec import decode, encode, shortened


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Leaf:
    count: int
    span_s: float | None = None


@dataclass(frozen=True)
class Tree:
    leaf: Leaf
    spans_s: tuple[float, ...]
    colour: Colour
    marks: dict[str, list[int]]
    anything: Any
    on: bool = False


GOOD = {
    "leaf": {"count": 3, "span_s": None},
    "spans_s": [1, 2.5],
    "colour": "red",
    "marks": {"late": [0]},
    "anything": [{}],
}


def test_plain_values_become_the_dataclass_they_are_annotated_as():
    assert decode(Tree, GOOD) == Tree(Leaf(3), (1.0, 2.5), Colour.RED, {"late": [0]}, [{}])


def test_a_whole_number_will_do_for_a_float_and_becomes_one():
    assert isinstance(decode(Tree, GOOD).spans_s[0], float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaf": {"count": 3.0}}, "tree.leaf.count is 3.0, not a whole number"),
        ({"leaf": {"count": True}}, "tree.leaf.count is True, not a whole number"),
        ({"leaf": {"count": 2**63}}, "tree.leaf.count is a whole number beyond 64 bits"),
        ({"leaf": {}}, "tree.leaf lacks count"),
        ({"leaf": None}, "tree.leaf is None, not an object"),
        ({"leaf": {"count": 1, "weight": 2}}, "tree.leaf has 'weight', which this schema does not know"),
        ({"spans_s": [1.0, "2"]}, r"tree.spans_s\[1\] is '2', not a number"),
        ({"spans_s": [math.nan]}, r"tree.spans_s\[0\] is nan, not a finite number"),
        ({"spans_s": [10**400]}, r"tree.spans_s\[0\] is 1000"),
        ({"spans_s": {}}, "tree.spans_s is {}, not a list"),
        ({"colour": "green"}, "tree.colour is 'green', not one of red, blue"),
        ({"colour": []}, r"tree.colour is \[\], not one of red, blue"),
        ({"marks": {"late": 1}}, r"tree.marks\['late'\] is 1, not a list"),
        ({"on": 1}, "tree.on is 1, not true or false"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_place(change, message):
    with pytest.raises(ValueError, match=message):
        decode(Tree, GOOD | change)


def test_a_message_stays_short_whatever_the_value():
    with pytest.raises(ValueError, match="spans_s") as error:
        decode(Tree, GOOD | {"spans_s": "x" * 10_000_000})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("value", ["y" * 1000, ["y"] * 1000, {"k" * 1000: 1}, 10**4000])
def test_a_shortened_value_fits_its_limit(value):
    assert len(shortened(value)) == 60


def test_what_json_does_not_have_is_not_known():
    plain = encode({"a": math.nan, "b": [math.inf, (1.0, -math.inf)], "c": "nan"})
    assert plain == {"a": None, "b": [None, [1.0, None]], "c": "nan"}
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_half_a_surrogate_pair_becomes_an_escape_wherever_text_is_typed():
    stored = {**GOOD, "marks": {"la\ud800te": [0]}}
    assert decode(Tree, stored).marks == {"la\\ud800te": [0]}

    @dataclass(frozen=True)
    class Named:
        name: str

    assert decode(Named, {"name": "\udcff µ 🙂"}).name == "\\udcff µ 🙂"
