"""Templates escape what they are given, and show what cannot be seen."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

import analysis
from analysis.report.legible import legible
from analysis.report.markup import Column, Html, paragraph, part, section, table


class Seen(HTMLParser):
    """The elements, attributes and text of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said = ""
        self.feed(str(html))  # an Html would escape what is added to it

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.said += data


ATTACKS = ["<script>x</script>", '"><b onclick=x>', "' onload='x", "&lt;b&gt;", "<!--", "]]>", "</p>"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_comes_out_as_it_went_in_and_makes_no_elements(attack):
    seen = Seen(paragraph(attack))
    assert (seen.tags, seen.attributes, seen.said) == (["p"], [], attack)
    column = Column(attack, lambda row: row["x"], title=attack)
    seen = Seen(table("t", attack, [column], [{"x": attack}], searchable=attack))
    assert seen.said.count(attack) == 3
    assert {("title", attack), ("data-search", attack), ("aria-label", attack)} <= set(seen.attributes)
    assert set(seen.tags) == {"div", "table", "caption", "span", "thead", "tbody", "tr", "th"}


def test_only_html_is_taken_as_markup_and_none_is_left_out():
    assert paragraph(Html("<b>x</b>"), "<b>", None) == "<p><b>x</b>&lt;b&gt;</p>"
    shown = section("a", "<", "&", None, paragraph("b")).html
    assert "&lt;</h2>\n&amp;\n\n<p>b</p>\n</section>" in shown


def test_names_are_short_with_the_exact_one_beneath_the_pointer_and_a_term_is_explained_once():
    parts = (
        paragraph("main-0@55069421 is a snapshot, main-0 a player; two snapshots of x@5."),
        part("code", text="league compare RUN main-0@55069421"),
    )
    shown = legible(section("a", "snapshot", *parts), {"main-0@55069421": "main-0 · 55.1M", "x@5": "x@5"})
    seen = Seen(shown.html)
    assert ("title", "main-0@55069421") in seen.attributes
    assert seen.said.split("\n")[1:3] == [
        "snapshot",
        "main-0 · 55.1M is a snapshot, main-0 a player; two snapshots of x@5.",
    ]
    assert "<code>league compare RUN main-0@55069421</code>" in shown.html
    assert seen.tags.count("abbr") == 2  # snapshot, player


def test_characters_that_cannot_be_seen_are_spelled_out():
    assert paragraph("main\u202e0\u200b\x00") == "<p>main\\u202e0\\u200b\\u0000</p>"
    assert paragraph("mäin-0 → 中") == "<p>mäin-0 → 中</p>"


def test_no_template_switches_escaping_off():
    templates = list(Path(analysis.__file__).parent.rglob("*.html"))
    assert len(templates) > 10
    for template in templates:
        written = template.read_text()
        assert "safe" not in written, template
        assert "autoescape" not in written, template
        assert "={{" not in written, f"{template}: attributes are in quotes"
