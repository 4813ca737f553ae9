"""Page on which matches are played: one document that loads nothing but answers of this server."""

from __future__ import annotations

import base64
import hashlib

from analysis.report.writing.markup import Html, element, join
from analysis.report.writing.resources import resource

PACKAGE = "analysis.server.playing"


def play_page(name: str, style: str, *, report: bool) -> str:
    """Return the page for the run `name`; `style` is that of the pictures.

    `report`: whether the server has the report, which the page then links to.
    """
    script = Html(resource("play.js", PACKAGE))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{name}: play"),
        element("style", Html(resource("style.css")), Html(resource("play.css", PACKAGE)), Html(style)),
    )
    back = element("p", element("a", "Report of this run", href="./")) if report else None
    header = element("header", element("h1", name), element("p", "Play", id="subject"), back, class_="top")
    main = element("main", _trouble(), _match(), _setup(), _recorded(), id="main")
    body = element(
        "body",
        element("a", "Skip to the match", class_="skip", href="#match"),
        element("div", header, main, class_="page"),
        element("script", script),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _trouble() -> Html:
    return element("p", id="trouble", role="alert", class_="caution", hidden=True)


def _match() -> Html:
    """Return the section of the match, hidden until there is one."""
    picture = element(
        "div",
        element("div", id="drawn"),
        element("div", id="spots", role="group", aria_label="Your actions in the picture"),
        id="picture",
        class_="picture",
    )
    text = element("details", element("summary", "As text"), element("pre", id="text"), id="as-text")
    shown = element("div", picture, element("p", id="words", class_="hidden-words"), text, class_="table")
    status = element("p", id="status", role="status", aria_live="polite", class_="lead")
    buttons = element(
        "div",
        *(_button(name, label) for name, label in _BUTTONS),
        element("span", id="step-shown", class_="soft"),
        class_="buttons",
    )
    typed = element(
        "form",
        element("label", "Action", for_="typed-action", id="typed-label"),
        element("input", id="typed-action", autocomplete="off", aria_describedby="typed-help"),
        element("button", "Play it", type="submit"),
        element("span", id="typed-help", class_="soft"),
        id="typed", class_="search", hidden=True,
    )  # fmt: skip
    slider = element("input", id="scrub", type="range", min=0, max=0, value=0, aria_label="Step", hidden=True)
    side = element(
        "div",
        status,
        element("div", id="moves", role="group", aria_label="Your actions"),
        typed,
        slider,
        buttons,
        element("div", id="hint", aria_live="polite"),
        element("h3", "So far", id="so-far", hidden=True),
        element("ol", id="said", aria_labelledby="so-far", tabindex=0, hidden=True),
        element("ul", id="result", class_="said"),
        class_="side",
    )
    title = element("h2", "Match", id="match-title", tabindex=-1)
    columns = element("div", shown, side, class_="match")
    return element(
        "section", title, columns, id="match", aria_labelledby="match-title", tabindex=-1, hidden=True
    )


_BUTTONS = (
    ("hint-button", "Hint"),
    ("back-button", "Back"),
    ("next-button", "Next"),
    ("run-button", "Play on"),
    ("again-button", "Play again"),
    ("leave-button", "Leave"),
)


def _button(name: str, label: str) -> Html:
    return element("button", label, id=name, type="button", hidden=True)


def _setup() -> Html:
    """Return the form that begins a match; the script adds a field for each seat."""
    keys = [
        _keys("Tab ← → ↑ ↓", "go from action to action"),
        _keys("Enter Space", "take the action"),
        _keys("0 to 9, a to z", "take the action with that number or first letter, within the match"),
        _keys("?", "hint, within the match"),
    ]
    form = element(
        "form",
        element("div", id="seat-fields"),
        element("datalist", id="names"),
        element(
            "p",
            element("label", "Seed (empty: any)", for_="seed"),
            element("input", id="seed", inputmode="numeric", autocomplete="off"),
        ),
        element("p", element("button", "Begin", type="submit", id="begin")),
        id="setup-form",
    )  # fmt: skip
    told = join(
        [
            "A competitor is a snapshot, a player (its newest snapshot), ", element("code", "best"),
            ", a mixture or a bot; ", element("code", "name:greedy"), " takes its likeliest action.",
        ]
    )  # fmt: skip
    return element(
        "section",
        element("h2", "New match", id="setup-title"),
        element("p", told, class_="soft"),
        form,
        element("h3", "Keys"),
        element("ul", *keys, class_="said"),
        id="setup", aria_labelledby="setup-title",
    )  # fmt: skip


def _keys(keys: str, meaning: str) -> Html:
    shown = [key if key == "to" else element("kbd", key.rstrip(",")) for key in keys.split()]
    return element("li", *(part for key in shown for part in (key, " ")), meaning)


def _recorded() -> Html:
    names = ("match", "competitors", "outcomes", "decisions", "purpose")
    columns = (element("th", n, scope="col", class_="n" if n == "decisions" else None) for n in names)
    table = element(
        "table",
        element("caption", "The newest matches that were recorded action by action"),
        element("thead", element("tr", *columns)),
        element("tbody", id="recorded-rows"),
    )
    return element(
        "section",
        element("h2", "Recorded matches", id="recorded-title"),
        element("p", "Loading.", id="recorded-none"),
        element("div", table, class_="scroll", id="recorded-table", tabindex=0, role="region",
                aria_labelledby="recorded-title", hidden=True),
        id="recorded", aria_labelledby="recorded-title",
    )  # fmt: skip
