"""Labels of a run: tags and a note of its owner, in a file of the run folder.

They are no facts of the league: the ledger does not have them, and branches and remotes go without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from storage.disk import write_json
from storage.errors import Mistake, NotARun
from storage.layout import LABELS, require_run

MOST_NOTE = 2000  # characters
MOST_SHOWN = 80  # characters of a tag in a message
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags, in order of the alphabet, and a note, which may be empty."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read_labels(run: Path) -> Labels:
    """Return the labels of `run`. Raise NotARun for a file that cannot be read."""
    path = run / LABELS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Labels(tuple(map(str, found["tags"])), str(found["note"]))
    except FileNotFoundError:
        return Labels()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotARun(
            f"{path}: cannot be read ({error}), expected tags and a note as JSON; remove the file"
        ) from None


def change_tags(run: Path, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Labels:
    """Add and remove tags of `run`, also while it trains, and return its labels. Raise Mistake, NotARun."""
    add, remove = list(add), set(remove)
    for tag in add:
        if not _TAG.fullmatch(tag):
            raise Mistake(f"tag {tag[:MOST_SHOWN]!r}: expected up to 64 letters, digits and any of . _ = + -")
    before = read_labels(run)
    unknown = sorted(remove - {*before.tags})
    if unknown:
        known = ", ".join(before.tags) or "none"
        raise Mistake(f"{run}: has no tag '{unknown[0]}', its tags: {known}")
    return _write(run, Labels(tuple(sorted({*before.tags, *add} - remove)), before.note))


def change_note(run: Path, note: str) -> Labels:
    """Replace the note of `run`, also while it trains, and return its labels. Raise Mistake, NotARun."""
    text = " ".join(note.split())
    if len(text) > MOST_NOTE:
        raise Mistake(f"note: found {len(text):,} characters, expected at most {MOST_NOTE:,}")
    return _write(run, Labels(read_labels(run).tags, text))


def _write(run: Path, labels: Labels) -> Labels:
    require_run(run)
    write_json(run / LABELS, {"tags": list(labels.tags), "note": labels.note})
    return labels
