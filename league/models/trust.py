"""Trust in code of a user's own that a policy's spec names: networks, connectors, learner connectors.

A spec travels with its snapshots, so its import paths may come from a stranger, and importing executes
code. A path is imported only after it was admitted here: because a config that the user runs names it, or
`--trust`, or a program of the user's.
"""

from __future__ import annotations

from storage.errors import WeightsMismatch

_TRUSTED: set[str] = set()


def trust(*paths: str) -> None:
    """Allow this process to import these paths ("module:Name"), which its user has named.

    Never call it with a path from a snapshot: that may be foreign code, and importing executes it.
    """
    _TRUSTED.update(paths)


def require_trust(setting: str, path: str) -> None:
    """Raise WeightsMismatch unless `path`, found as `setting` of a spec, was admitted by `trust`."""
    if path not in _TRUSTED:
        raise WeightsMismatch(
            f"{setting} '{path}' is code, found in a snapshot's spec but not in a config that you "
            f"run, so it was not imported; if you trust it, give --trust {path}, name it in your config, or "
            f"call league.models.networks.networks.trust_network('{path}') first"
        )
