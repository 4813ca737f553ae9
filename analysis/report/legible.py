"""Text of a page for people: short names of snapshots, and terms, both explained beneath the pointer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from markupsafe import escape

from analysis.report.markup import Section

WORDS = (
    ("player", "an agent that learns, such as main-0. It goes on learning; its snapshots never change"),
    (
        "snapshot",
        "a frozen copy of a player: main-0 · 25.3k was frozen when main-0 had learned from 25,300 steps. "
        "Its exact name, such as main-0@25315, is what commands and tables have",
    ),
    ("main", "a player that is meant to become strong against all others"),
    ("main exploiter", "a player that looks for weaknesses of the mains, and is then reset"),
    ("league exploiter", "a player that looks for weaknesses of the whole league"),
    ("bot", "a scripted competitor, which never changes"),
    ("Elo", "a scale of strength: 100 Elo ahead means 64 of 100 points, 200 ahead 76, 400 ahead 91"),
    ("95 % interval", "a range that holds the true value in 95 of 100 such cases"),
    ("TrueSkill", "a rating with its uncertainty (mu, sigma), by which opponents are drawn while training"),
    ("env step", "one decision of one player in the game"),
    ("update", "one change of a player's weights by what it has played"),
    ("lag", "how many updates old the play is that an update learns from"),
    ("PFSP", "opponents drawn by how hard they are (prioritized fictitious self-play)"),
    ("self play", "matches of a player against itself"),
    ("preset", "a named set of rules of matchmaking, of freezing and of resets"),
)

_MEANINGS = dict(WORDS)
_ALTERNATIVES = "|".join(sorted(map(re.escape, _MEANINGS), key=len, reverse=True))
_FOUND = re.compile(
    r"<(?P<kept>code|pre|svg|abbr|thead|h2|dl)\b.*?</(?P=kept)>|<[^>]*>"  # code is copied
    r"|(?P<exact>[^\s<>&;,()\[\]“”\"'=+*]+@\d+)|(?P<short>[^\s<>&;,()\[\]“”\"'=+*]+ · [\d.]+[kMG]?)"
    r"|`(?P<code>[^`<>]+)`"
    rf"|(?<![\w@/.-])(?P<word>{_ALTERNATIVES})s?(?![\w@/:-]| ·)",
    re.DOTALL,
)


def legible(shown: Section, names: Mapping[str, str]) -> Section:
    """Return a section in which names are short, with the exact ones as titles, terms are explained,
    and what is between backticks is code.

    `names` are short ones by exact ones. A term is explained where it is first in the section.
    """
    exact = {short: name for name, short in names.items()}
    explained: set[str] = set()

    def turned(found: re.Match[str]) -> str:
        text = found[0]
        name = found["exact"] or exact.get(found["short"] or "", "")
        word = found["word"]
        if found["code"]:
            return f"<code>{found['code']}</code>"
        if names.get(name, name) != name:
            return f'<span title="{name}">{names[name]}</span>'
        if word and word not in explained:
            explained.add(word)
            return f'<abbr title="{escape(_MEANINGS[word])}">{text}</abbr>'
        return text

    return replace(shown, html=_FOUND.sub(turned, shown.html))
