"""Keys of configs that have moved or gone: refused in a new config, translated in what is recorded.

A run folder may be of an older version, and the manifests of snapshots keep the form that they always had:
`translated` and `policy_of` write these as a config has them today. An old key in a new config is
refused with the new one (`refused`). The tables of this module are all that is known of old keys.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from league.import_paths import is_import_path


class Moved(NamedTuple):
    """The new place of a key, in its section, and the kinds that have it there."""

    place: str  # such as "loss.clip"; "loss": each of its keys, beside the kind
    kinds: str  # such as "appo ppo", or "own", for code of the user's
    section: str = ""  # of the new place, if it is another one


VTRACED = "appo impala neurd own"
LEARNER: Mapping[str, Moved] = {
    "loss_options": Moved("loss", f"{VTRACED} ppo"),
    "clip": Moved("loss.clip", "appo ppo own"),
    "vtrace_lambda": Moved("loss.vtrace_lambda", VTRACED),
    "vtrace_clip_rho": Moved("loss.vtrace_clip_rho", VTRACED),
    "vtrace_clip_c": Moved("loss.vtrace_clip_c", VTRACED),
    "gae_lambda": Moved("loss.gae_lambda", "ppo own"),
    "normalise_advantage": Moved("loss.normalise_advantage", "ppo own"),
    "betas": Moved("optimizer.betas", "adam adamw"),
    "epsilon": Moved("optimizer.epsilon", "adam adamw rmsprop"),
    "rms_decay": Moved("optimizer.rms_decay", "rmsprop"),
    "momentum": Moved("optimizer.momentum", "rmsprop"),
    "weight_decay": Moved("optimizer.weight_decay", "adamw"),
    **{
        key: Moved(key, "", "learners")
        for key in (
            *("processes", "shards", "aggregators", "max_backlog", "broadcast_updates", "copy_seconds"),
            "async_update",
        )
    },
}
LEARNERS: Mapping[str, Moved] = {"replay": Moved("replay", "", "learner")}  # each player has its own
POLICY: Mapping[str, Moved] = {
    "architecture": Moved("torso.kind", "mlp cnn resnet nature impala own"),
    "channels": Moved("torso.channels", "cnn resnet nature impala"),
    "kernel": Moved("torso.kernel", "cnn resnet"),
    "options": Moved("torso", "own"),
    "memory_size": Moved("memory.size", "gru lstm transformer"),
    "context": Moved("memory.context", "transformer"),
    "heads": Moved("memory.heads", "transformer"),
}
LEAGUE: Mapping[str, Moved] = {
    "builder_options": Moved("builder", "own"),
    "matchmaker_options": Moved("matchmaker", "own"),
}


class Gone(NamedTuple):
    """A key that is no setting any more, why, and the values that a recorded run may have; (): any."""

    why: str
    values: tuple[float | None, ...] = ()


GONE: Mapping[str, Gone] = {
    "ring": Gone(
        "each minibatch is learned from once; set epochs for several passes, or learner.replay for old "
        "experience beside the new"
    ),
    "compile": Gone("networks run as they are written"),
    "kl": Gone(
        "the policy is held to a copy of itself by learner.magnet, such as {kind: copy, every: 100, weight: "
        "0.1, direction: forward}",
        (0.0,),
    ),
    "value_lr": Gone("the value's own parameters follow lr, as all others do", (None,)),
    "gradient_value": Gone("gradients are clipped to gradient_norm alone", (None,)),
    "stacked": Gone(
        "the players of a shard learn one after the other; to let them learn in processes of their own, set "
        "learners.shards"
    ),
    "learning": Gone(
        "the seats of other live players do not learn: that they did made no difference that could be "
        "measured"
    ),
    "forgotten_below": Gone("it is 0.5, a constant of branch forgotten", (0.5,)),
    "strong_exploiter_below": Gone("it is 0.5, a constant of branch forgotten", (0.5,)),
    "exploited_below": Gone("it is 0.3, a constant of branch verification", (0.3,)),
    "unsafe_below": Gone("it is 0.7, a constant of branch verification", (0.7,)),
    "inherit_above": Gone("it is 0.2, a constant of reset target inherit", (0.2,)),
    "inherit_below": Gone("it is 0.5, a constant of reset target inherit", (0.5,)),
}


def refused(table: Mapping[str, Moved]) -> Callable[[Any], Any]:
    """Return a validator of a section that raises ValueError for a key that has moved."""

    def check(given: Any) -> Any:
        for key in given if isinstance(given, Mapping) else ():
            if key not in table:
                continue
            place, kinds, section = table[key]
            group, _, name = place.partition(".")
            if section:
                why, more = ("", "")
                if section == "learners":
                    why, more = "all players share and which ", ", or give it to a LearnerGroup of your own"
                raise ValueError(
                    f"found {key}, which {why}has moved to {section}.{place}; write {section}: "
                    f"{{{place}: ...}}{more}"
                )
            written = f"{name}: ..., " if name and name != "kind" else ""
            kind = "use: module:Name" if kinds == "own" or place == "loss" else f"kind: {kinds.split()[0]}"
            if name == "kind":
                kind = f"{'use' if is_import_path(given[key]) else 'kind'}: {given[key]}"
            example = f"{group}: {{{kind}, {written or '...'}}}".replace(", }", "}")
            if name == "kind":
                place = group
            raise ValueError(f"found {key}, which has moved to {place}; write {example}")
        return given

    return check


def gone(given: Any) -> Any:
    """Validate a section of which some keys are gone. Raise ValueError for one that is given."""
    for key in given if isinstance(given, Mapping) else ():
        if key in GONE:
            raise ValueError(f"found {key}, which was removed; leave it out: {GONE[key].why}")
    return given


def one_anchor(given: Any) -> Any:
    """Validate the section `ratings`. Raise ValueError for one `anchor`, in whose place several may be."""
    if isinstance(given, Mapping) and "anchor" in given:
        name = given["anchor"]
        remedy = "leave it out" if name is None else f"write anchors: {{{name}: 0}}"
        raise ValueError(f"found anchor, which has moved to anchors; {remedy}")
    return given


def translated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a recorded run as one is written today. Raise ValueError where that cannot be."""
    found: dict[str, Any] = copy.deepcopy(dict(config))
    learner = found.get("learner")
    if isinstance(learner, Mapping):
        shared = {key: learner[key] for key in LEARNER.keys() & learner.keys() if LEARNER[key].section}
        if shared:
            found["learners"] = shared | (found.get("learners") or {})
    if isinstance(learners := found.get("learners"), Mapping) and "replay" in learners:
        found["learner"] = {"replay": learners["replay"], **(learner or {})}
        found["learners"] = {key: value for key, value in learners.items() if key != "replay"}
    for name in ("policy", "learner"):
        if isinstance(found.get(name), Mapping):
            found[name] = _SECTIONS[name](found[name])
    if isinstance(found.get("ratings"), Mapping):
        found["ratings"] = ratings_of(found["ratings"])
    league = found.get("league")
    if isinstance(league, dict):
        league = found["league"] = _moved(league, LEAGUE, {})
    if isinstance(found.get("bots"), Mapping):
        found["bots"] = bots_of(found["bots"])
    for place in ("roles", "members") if isinstance(league, Mapping) else ():
        for rules in (found["league"].get(place) or {}).values():
            _translate_rules(rules, found)
    return found


def _translate_rules(rules: Any, config: Mapping[str, Any]) -> None:
    """Write the rules of a role or of a player as they are written today, in place."""
    if not isinstance(rules, dict):
        return
    for name in ("policy", "learner"):
        if rules.get(name):
            rules[name] = _SECTIONS[name](rules[name], config.get(name) or {})
    branches = (rules.get("opponents") or {}).get("branches")
    if isinstance(branches, Mapping):
        rules["opponents"]["branches"] = {
            (key.partition(":")[2] if is_import_path(key) else key): (
                {"use": key, **branch} if is_import_path(key) else branch
            )
            for key, branch in branches.items()
        }
    for name in ("opponents", "reset"):
        if isinstance(section := rules.get(name), dict):
            rules[name] = _without_gone(section, f"{name}.")


def _without_gone(section: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return a recorded section without keys that are gone. Raise ValueError for a value that mattered."""
    for key in GONE.keys() & section.keys():
        found, (why, values) = section[key], GONE[key]
        if values and found not in values:
            raise ValueError(
                f"{where}{key}: the run was begun with {found}, but {why}; its snapshots can be played, but "
                "it cannot go on"
            )
    return {key: value for key, value in section.items() if key not in GONE}


def policy_of(fields: Mapping[str, Any], base: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the section `policy`, or changes to the section `base`, as written today."""
    found = _moved(fields, POLICY, base)
    if found.get("squash") is True:
        del found["squash"]  # what a policy of continuous actions has anyway, and all had by default
    if isinstance(found.get("connectors"), list):
        found["connectors"] = [_own(connector) for connector in found["connectors"]]
    return found


def learner_of(fields: Mapping[str, Any], base: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the section `learner`, or changes to the section `base`, as written today."""
    found = _moved(fields, LEARNER, base)
    if isinstance(found.get("terms"), Mapping):
        found["terms"] = {
            key.partition(":")[2].lower() if is_import_path(key) else key: (
                {**term, "use": key} if is_import_path(key) and isinstance(term, Mapping) else term
            )
            for key, term in found["terms"].items()
        }
    return found


def ratings_of(ratings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `ratings` of what is recorded of a league or a tournament, as written today."""
    found = dict(ratings)
    if "anchor" in found:
        name = found.pop("anchor")
        found["anchors"] = {} if name is None else {name: {"elo": 0.0, "error": 0.0}}
    return found


def bots_of(bots: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `bots` of a recorded config, of a league or a tournament, as written today."""
    return {
        name: {"use": bot.get("function")}
        if isinstance(bot, Mapping) and bot.get("kind") == "function"
        else bot
        for name, bot in bots.items()
    }


_SECTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {"policy": policy_of, "learner": learner_of}


def _moved(fields: Mapping[str, Any], table: Mapping[str, Moved], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return `fields` with the keys of `table` in their new places.

    What the chosen kind does not have had no effect, and is left out.
    """
    found = {key: value for key, value in _without_gone(fields).items() if key not in table}
    if "architecture" in fields:
        found["torso"] = fields["architecture"]
    for group in {moved.place.partition(".")[0] for moved in table.values()} & found.keys():
        if isinstance(found[group], str):
            found[group] = {"use" if is_import_path(found[group]) else "kind": found[group]}
    for key, (place, kinds, section) in table.items():
        group, _, name = place.partition(".")
        if key not in fields or name == "kind" or section:
            continue
        chosen = found.get(group, {})
        if not isinstance(chosen, Mapping) or not (name or isinstance(fields[key], Mapping)):
            continue  # refused where the settings are made, or without an effect
        named = chosen if chosen.keys() & {"kind", "use"} else base.get(group, {})
        kind = "own" if "use" in named else named.get("kind")
        if kind not in kinds.split():
            continue
        more = {name: fields[key]} if name else fields[key]
        if more:
            found[group] = {**more, **chosen}  # no option takes the place of the part itself
    return found


def _own(connector: Any) -> Any:
    """Return a connector with its import path as `use`."""
    if not isinstance(connector, Mapping) or not is_import_path(str(connector.get("kind", ""))):
        return connector
    return {"use": connector["kind"], **{key: value for key, value in connector.items() if key != "kind"}}
