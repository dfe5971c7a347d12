from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.html import markup
from reports.html.markup import add, code, element, html

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a & b | c",
    "</td>",
    "\u2028",
    "'",
    "\ud800",
]


class Parsed(HTMLParser):
    """What a parser makes of a document: its tags, its attributes and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_elements_nest_and_keep_the_order_of_text_and_children():
    made = element("p", "one ", element("b", "two"), " three", None, element("br"))
    assert html(made).splitlines()[1] == "<p>one <b>two</b> three<br></p>"


def test_attributes_are_named_as_in_html_and_left_out_where_there_is_nothing():
    made = element("div", class_="a", data_by=1, aria_label="x", hidden=True, open=False, title=None)
    assert html(made).splitlines()[1] == '<div class="a" data-by="1" aria-label="x" hidden=""></div>'


@pytest.mark.parametrize("name", HOSTILE)
def test_text_stays_text_and_an_attribute_one_attribute(name):
    parsed = Parsed(html(element("td", f"({name})", title=name)))
    assert parsed.tags == ["td"]
    assert parsed.attributes == [("title", markup.shown(name))]
    assert parsed.text.strip() == f"({markup.shown(name)})"


@given(st.text())
def test_whatever_it_is_given_a_document_has_the_tags_that_were_made(text):
    made = element("p", text, data_x=text)
    add(made, text)
    assert Parsed(html(made)).tags == ["p"]


def test_what_nobody_can_see_is_written_as_an_escape():
    assert markup.shown("a\u202eb\x00c\nd") == "a\\u202eb\\x00c\nd"


@pytest.mark.parametrize("text", ["</script>", "x </SCRIPT >", "<!--"])
def test_a_script_that_would_end_itself_is_refused(text):
    with pytest.raises(ValueError, match="it would end there"):
        code("script", text)
