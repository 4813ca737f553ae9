"""Page: sections, a table of contents, style and script in one file that loads nothing.

The page's Content-Security-Policy allows only scripts with the given hashes, and no requests. So even markup
that got past `markup` could not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from analysis.history.history import History
from analysis.report.interactive import charts_of
from analysis.report.makers import Maker, sections_of
from analysis.report.story import Story
from analysis.report.writing.markup import Html, element, join
from analysis.report.writing.phrases import moment
from analysis.report.writing.resources import resource
from analysis.report.writing.section import Section
from storage.ends import span


def report_page(
    history: History, *, interactive: bool | None = None, own_sections: Sequence[Maker] = ()
) -> str:
    """Return an HTML page on the one run of `history`; the same run gives the same bytes.

    `interactive`: include interactive charts, which need the extra `report` (`None`: if it is installed).
    `own_sections`: functions of a Story that make further sections, shown at the end. Raise Mistake for
    several runs, or if charts are requested and the extra is missing.
    """
    story = Story(history)
    charts = charts_of(story, interactive)
    note = None if charts.scripts or charts.reason is None else element("p", charts.reason)
    shown = [*sections_of(story), *(make(story) for make in own_sections)]
    return page(story, shown, data=charts.data, scripts=charts.scripts, foot=note)


def page(
    story: Story,
    shown: Sequence[Section],
    *,
    data: Sequence[Html] = (),
    scripts: Sequence[str] = (),
    foot: Html | None = None,
    connect: str = "'none'",
) -> str:
    """Return the page of these sections on one run; the arguments are those of `document`."""
    title = f"{story.name}: league report"
    return document(title, _header(story), shown, data=data, scripts=scripts, foot=foot, connect=connect)


def document(
    title: str,
    header: Html,
    shown: Sequence[Section],
    *,
    data: Sequence[Html] = (),
    scripts: Sequence[str] = (),
    foot: Html | None = None,
    connect: str = "'none'",
) -> str:
    """Return a page of these sections.

    `data`: data elements for `scripts`, which run after the page's own script. `connect`: allowed origins of
    requests, in the syntax of Content-Security-Policy. Raise ValueError if a script could end its element.
    """
    running = [Html(script) for script in (resource("page.js"), *scripts)]
    if any("</script" in script.lower() or "<!--" in script for script in running):
        raise ValueError("found the end of an element in a script, expected none")
    style = Html(resource("style.css"))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src {connect}; "
        f"script-src {' '.join(_hash(script) for script in running)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", style),
    )
    links = (element("li", element("a", part.title, href=f"#{part.id}")) for part in shown)
    contents = element(
        "nav", element("h2", "Contents", id="contents"), element("ol", *links),
        class_="contents", aria_labelledby="contents",
    )  # fmt: skip
    main = element("main", *(Html(part.html) for part in shown), id="main", tabindex=-1)
    body = element(
        "body",
        element("a", "Skip to the report", class_="skip", href="#main"),
        element(
            "div",
            header,
            element("div", contents, main, class_="columns"),
            element("footer", foot, class_="foot"),
            class_="page",
        ),
        *data,
        *(element("script", script) for script in running),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _header(story: Story) -> Html:
    kind = "Tournament" if story.is_tournament else "League"
    game = element("code", str(story.session["env"]))
    return element(
        "header",
        element("h1", story.name),
        element("p", join([f"{kind} of ", game, element("span", as_of(story), id="as-of")])),
        class_="top",
    )


def as_of(story: Story) -> str:
    """Return text with the state of the run, the time left, and the time of its last fact, if any."""
    last, state = story.totals.last, story.state
    shown = "" if state is None or state.kind == "played" else f", {state.word}"
    if story.seconds_left is not None:
        shown += f", {span(float(round(story.seconds_left)))} left"
    return shown if last is None else f"{shown}, as of {moment(last)}"


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
