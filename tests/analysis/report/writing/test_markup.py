from html.parser import HTMLParser

import pytest

from analysis.report.writing.markup import Html, element, join, text


class Seen(HTMLParser):
    """The elements, attributes and text of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.said += data


ATTACKS = ["<script>x</script>", '"><b onclick=x>', "' onload='x", "&lt;b&gt;", "<!--", "]]>", "</p>"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_comes_out_as_it_went_in_and_makes_no_elements(attack):
    seen = Seen(element("p", attack, title=attack))
    assert seen.tags == ["p"]
    assert seen.attributes == [("title", attack)]
    assert seen.said == attack


def test_only_html_is_taken_as_markup():
    assert element("p", Html("<b>x</b>"), "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert join(["<", None, Html("<"), 3]) == "&lt;<3"
    assert type(element("p")) is Html


def test_attributes_are_left_out_or_stand_alone():
    assert element("ol", reversed=True, hidden=False, id=None, class_="a", aria_label="b") == (
        '<ol reversed class="a" aria-label="b"></ol>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_what_nobody_would_see_is_spelled_out():
    assert text("main\u202e0\u200b\x00") == "main\\u202e0\\u200b\\u0000"
    assert text("mäin-0 → 中") == "mäin-0 → 中"


@pytest.mark.parametrize("name", ["on click", "a>b", "", "1a"])
def test_names_of_elements_and_attributes_are_checked(name):
    with pytest.raises(ValueError, match="expected the name"):
        element(name)
    with pytest.raises(ValueError, match="expected the name"):
        element("p", **{name: "x"})
