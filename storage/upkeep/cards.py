"""The head of a card: what model hubs read at the beginning of an export's README.

It is YAML between two lines of dashes. Every value is written as JSON, which is YAML too, so that a name
from a stranger's manifest stays a string.
"""

from __future__ import annotations

import json

# identifiers of licences that hubs know; other texts are named beside `other`
_KNOWN = frozenset(
    (
        *("mit", "apache-2.0", "bsd", "bsd-2-clause", "bsd-3-clause", "mpl-2.0", "unlicense", "openrail"),
        *("cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "gpl-3.0", "lgpl-3.0", "agpl-3.0"),
    )
)


def front_matter(env_id: str, license: str, unspecified: str) -> str:
    """Return the head of the card of a policy for the game `env_id`, with the line break behind it."""
    fields: dict[str, object] = {}
    if license.lower() in _KNOWN:
        fields["license"] = license.lower()
    elif license != unspecified:
        fields |= {"license": "other", "license_name": license}
    fields |= {
        "library_name": "checkpoint-league",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "self-play", "checkpoint-league", env_id],
    }
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", ""])
