"""The hook after each update: a function of the user's own, which `learner.after_update` names.

    def watch(player, statistics, learner):
        if statistics["gradient_norm"] > 100:
            print(player, learner.updates, statistics)

`statistics` are the figures of this one update by name, such as "policy_loss", "entropy" and "lag". The hook
runs in the learner's process, between two updates; where several processes share an update, in each of them
(`learner.rank` is the number of the process). It may change what `learner` offers, such as its weights by
`reset`; what it returns is not used. Reading the figures of an update makes a GPU wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from league.import_paths import import_callable
from league.section import OwnPart
from storage.errors import Failure


class HookFailed(Failure):
    """Exception raised by a hook; it ends the training, and the run can be resumed."""


def find_hook(path: str) -> Callable[..., object]:
    """Return the hook at `path` ("module:function"). Raise ValueError if it is not found."""
    return import_callable(path, "a function of player, statistics and learner")


def call_hook(hook: OwnPart, player: str, statistics: Mapping[str, float], learner: Any) -> None:
    """Call the hook after an update. Raise HookFailed, with its name, for all that it raises."""
    try:
        find_hook(hook.use)(player, statistics, learner, **hook.options)
    except Exception as error:  # a user's function may raise anything
        reason = (str(error).strip() or "without a message").splitlines()[0]
        raise HookFailed(
            f"learner.after_update '{hook.use}' raised {type(error).__name__} after update {learner.updates} "
            f"of player {player}: {reason}; the run is kept as it was last saved: correct the function, or "
            "set learner.after_update to null, and go on with --resume"
        ) from error
