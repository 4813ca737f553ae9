"""PolicySpec: all of a policy except its weights. It holds network settings and the spaces of its seats.

It travels with every snapshot, as JSON, so that a snapshot played months later sees and does what it
was trained on.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart
from league.import_paths import require_trust, trust
from league.mistakes import explain
from league.models.connectors import Connector, seen_through
from league.models.torsos import MemorySettings, Mirror, Mlp, NoMemory, OwnTorso, TorsoSettings, Width
from league.moved_keys import POLICY, policy_of, refused
from league.section import USE, OwnPart, SettingsGroup, StoredPart, used
from storage.errors import WeightsMismatch

_FIELDS = {"settings", "observation", "action"}  # of a stored spec; "others" may be missing
_OTHER = "seat after"  # name of a part that another seat sees
LONGEST_QUOTE = 300  # characters of a foreign file that a message repeats
# in which policies play, as settings name it; auto: whichever is faster on this CPU, and float32 on a GPU
Precision = Literal["float32", "tf32", "bfloat16", "auto"]
MOST_UNTRIED = 2**24  # weights of layers that a machine surely has room for

LearnerConnector = Annotated[StoredPart, BeforeValidator(used)]


class PolicySettings(SettingsGroup):
    """The network of every player."""

    torso: TorsoSettings = Field(
        default=Mlp(),
        description="mlp, cnn or resnet (boards of shape [planes, rows, columns]), nature or impala "
        "(frames, planes first or last), or {use: module:Class}",
    )
    hidden: tuple[Width, ...] = Field(
        default=(256, 256), description="Widths of the hidden layers", min_length=1, max_length=256
    )
    activation: Literal["relu", "tanh"] = Field(default="relu", description="Nonlinearity between layers")
    separate_value: bool = Field(
        default=False, description="Whether the value has its own network instead of a head on the policy's"
    )
    value_sees: Literal["seat", "all"] = Field(
        default="seat",
        description="What the value is estimated from, in training: what the seat itself sees, or what all "
        "seats see (with separate_value); actions depend on the seat's own sight in any case",
    )
    memory: MemorySettings = Field(
        default=NoMemory(), description="Memory that connects the steps of one seat in one match"
    )
    squash: bool | None = Field(
        default=None,
        description="Continuous actions: tanh into the bounds (false: clipped at them), where there are two; "
        "`null`: tanh, and the only value where actions are choices",
    )
    mirror: Mirror | None = Field(
        default=None,
        description="mlp: a symmetry of the game that the policy has by construction; `null`: none",
    )
    connectors: tuple[Connector, ...] = Field(
        default=(),
        description="Transformations of an observation on its way to the network, in this order, or "
        "{use: module:Class}",
        max_length=16,
    )
    learner_connectors: tuple[LearnerConnector, ...] = Field(
        default=(),
        description="Functions of your own, {use: module:function}, that change the columns of episodes "
        "before they are learned from, in this order",
        max_length=16,
    )
    _moved = model_validator(mode="before")(refused(POLICY))

    @model_validator(mode="after")
    def _value_can_see(self) -> Self:
        if self.value_sees == "all" and (not self.separate_value or isinstance(self.torso, OwnTorso)):
            raise ValueError(
                "value_sees: found all, which is for a torso of ours with a network of its own for the "
                "value; set separate_value to true, or value_sees to seat"
            )
        return self

    @property
    def own_code(self) -> tuple[str, ...]:
        """Import paths of the code that such a policy is played with: its network and connectors."""
        parts = (self.torso, *self.connectors)
        return tuple(part.kind for part in parts if isinstance(part, OwnPart))


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """Everything but weights that is needed to build a policy."""

    settings: PolicySettings
    observation: ObservationSpec  # as the game shows it
    action: ActionSpec
    # of the seats after the own one, in turn, as the game shows them; empty unless the value sees all
    others: tuple[ObservationSpec, ...] = ()

    @staticmethod
    def for_game(
        settings: PolicySettings, game: BatchedGame, seats: tuple[int, ...] | None = None
    ) -> PolicySpec:
        """Return the spec of a policy that can play these seats of `game` (`None`: all of them).

        Raise ValueError if these seats differ, if the value is to see other seats and there are none, and for
        settings of continuous actions where there are none.
        """
        places = range(game.num_seats) if seats is None else seats
        spaces = [(seat, game.observation_specs[seat], game.action_specs[seat]) for seat in places]
        first, observation, action = spaces[0]
        for seat, seen, taken in spaces[1:]:
            if (seen, taken) != (observation, action):
                raise ValueError(
                    f"env '{game.id}': seats {first} and {seat} differ in what is seen or done there, but "
                    "one policy must fit them; say which seats each takes: league.roles.<role>.seats, or "
                    "league.members.<player>.seats"
                )
        _check_squash(settings, action)
        return PolicySpec(settings, observation, action, _others(settings, game, [s for s, *_ in spaces]))

    @staticmethod
    def for_spaces(observation: Any, action: Any, settings: PolicySettings) -> PolicySpec:
        """Return the spec of a policy for these spaces of gymnasium.

        Raise ValueError for spaces that no policy takes, and for connectors that do not fit.
        """
        if settings.value_sees == "all":
            raise ValueError("value_sees: found all, expected seat where there is no game with other seats")
        spec = PolicySpec(settings, ObservationSpec.from_space(observation), ActionSpec.from_space(action))
        _check_squash(settings, spec.action)
        spec.trust()  # a program names it
        spec.seen  # noqa: B018  # raises for connectors that do not fit
        return spec

    def plays(self, shown: ObservationSpec, action: ActionSpec) -> bool:
        """Return whether such a policy can take a seat that is shown this and takes these actions."""
        return self.action == action and self.observation.fits(shown)

    @property
    def bytes_of_decision(self) -> int:
        """Bytes that one decision takes in columns of episodes."""
        seen, action = self.learned, self.action
        numbers = math.prod(action.shape) * np.dtype(action.dtype).itemsize + action.mask_width
        beside = 16  # key, log_prob, reward
        return math.prod(seen.shape or (1,)) * np.dtype(seen.dtype).itemsize + numbers + beside

    @property
    def architecture(self) -> str:
        """Name of the network architecture."""
        return self.settings.torso.kind

    @property
    def squash(self) -> bool:
        """Whether continuous actions are squashed into their bounds."""
        return self.settings.squash is not False

    @property
    def own_code(self) -> tuple[str, ...]:
        """Import paths of the code that the policy is played with: its network and connectors."""
        return self.settings.own_code

    @property
    def mirror_fits(self) -> bool:
        """Whether the mirror, if there is one, has the numbers and the actions of the game."""
        mirror = self.settings.mirror
        if mirror is None:
            return True
        sizes = (math.prod(mirror.observation), math.prod(mirror.actions))
        return self.action.kind == "discrete" and sizes == (self.seen.size, self.action.mask_width)

    @property
    def plain(self) -> bool:
        """Whether the network is fully connected layers alone, which fit all rows of numbers."""
        settings = self.settings
        return (
            settings.torso.kind == "mlp"
            and settings.memory.kind == "none"
            and settings.value_sees == "seat"
            and not settings.connectors
            and len(self.observation.shape) > 0
            and self.mirror_fits
            and sum(math.prod(pair) for pair in itertools.pairwise((self.seen.size, *settings.hidden)))
            <= MOST_UNTRIED
        )

    def trust(self) -> None:
        """Allow this process to import all code that the spec names, for playing and for learning.

        Never call it for the spec of a snapshot: `league.import_paths`.
        """
        trust(*self.own_code, *(part.use for part in self.settings.learner_connectors))

    def require_trust(self) -> None:
        """Raise WeightsMismatch for code that the spec names and this process may not import."""
        for path in self.own_code:
            own = "torso" if path == self.settings.torso.kind else "connectors"
            require_trust(f"policy.{own}", path)
        for part in self.settings.learner_connectors:
            require_trust("policy.learner_connectors", part.use)

    @property
    def seen(self) -> ObservationSpec:
        """Observation that the network is shown, after the connectors."""
        return seen_through(self.settings.connectors, self.observation, self.action)

    @property
    def learned(self) -> ObservationSpec:
        """Observation that a learner gets: `seen`, and beside it what the other seats see, if any.

        Then it is one row. What others see has not passed their connectors.
        """
        if not self.others:
            return self.seen
        seen = self.seen
        parts = list(seen.parts or (SpacePart("own", seen.shape),))
        for number, other in enumerate(self.others, 1):
            theirs = other.parts or (SpacePart("", other.shape),)
            parts += [SpacePart(f"{_OTHER} {number} {part.name}", part.shape) for part in theirs]
        dtype = np.result_type(seen.dtype, *(other.dtype for other in self.others))
        return ObservationSpec((sum(part.size for part in parts),), str(dtype), tuple(parts))

    def __hash__(self) -> int:
        # of some fields only: settings hold a dict; equality compares all of them
        return hash((self.settings.torso.kind, self.settings.hidden, self.observation, self.action))

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values, for `from_json`.

        This form never changes: manifests have it, and exports, which others may have.
        """
        found = {
            "settings": _flat(self.settings.model_dump(mode="json")),
            "observation": asdict(self.observation),
            "action": self.action.to_json(),
        }
        return found | ({"others": [asdict(other) for other in self.others]} if self.others else {})

    @staticmethod
    def from_json(fields: Any) -> PolicySpec:
        """Read a spec. Raise WeightsMismatch if `fields` do not describe a policy of this version."""
        try:
            if not isinstance(fields, Mapping) or set(fields) - {"others"} != _FIELDS:
                raise ValueError("expected settings, observation and action")
            # strict: "8" is not 8, and a list of pairs is not a table
            given = json.loads(json.dumps(fields["settings"], allow_nan=False))
            if not isinstance(given, dict):
                raise ValueError(f"settings are {given!r}")
            built = given.get("architecture", "mlp")
            settings = PolicySettings.model_validate(_tuples(policy_of(given)), strict=True)
            action = ActionSpec.from_json(fields["action"])
            if not action.low:
                settings = settings.model_copy(update={"squash": None})  # it said nothing
            if given.get("options") and not isinstance(settings.torso, OwnTorso):
                raise ValueError(f"architecture '{built}' takes no options")
            spec = PolicySpec(
                settings,
                ObservationSpec.from_json(fields["observation"]),
                action,
                tuple(ObservationSpec.from_json(other) for other in fields.get("others", ())),
            )
            if bool(spec.others) != (settings.value_sees == "all"):
                raise ValueError(f"value_sees '{settings.value_sees}' with {len(spec.others)} other seats")
            if not any(isinstance(connector, OwnPart) for connector in settings.connectors):
                spec.learned  # noqa: B018  # raises for connectors that do not fit; own ones are not imported
        except ValidationError as error:
            raise _unreadable(fields, f"settings: {explain(error, PolicySettings)}") from None
        except KeyError as error:
            raise _unreadable(fields, f"{error} is missing") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise _unreadable(fields, str(error)) from None
        return spec


def _check_squash(settings: PolicySettings, action: ActionSpec) -> None:
    if settings.squash is not None and not action.low:
        raise ValueError(
            f"policy.squash: found {str(settings.squash).lower()}, but actions are {action.kind}, expected a "
            "game with continuous actions; leave it out"
        )


def _tuples(given: Any) -> Any:
    """Return JSON values with tuples for lists, as strict settings ask for, but in a user's own part."""
    if isinstance(given, dict) and USE not in given:
        return {key: _tuples(value) for key, value in given.items()}
    return tuple(map(_tuples, given)) if isinstance(given, list) else given


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a policy in the form of manifests, which `policy_of` reads."""
    torso, memory = settings.pop("torso"), settings.pop("memory")
    own = torso.pop("use", None)
    connectors = [
        {"kind": connector.pop("use"), **connector} if "use" in connector else connector
        for connector in settings.pop("connectors")
    ]
    return {
        "architecture": own or torso["kind"],
        **settings,
        "channels": torso.get("channels", [32, 64]),
        "kernel": torso.get("kernel", 3),
        "memory": memory["kind"],
        "memory_size": memory.get("size", 128),
        "context": memory.get("context", 16),
        "heads": memory.get("heads", 4),
        "squash": settings["squash"] is not False,
        "connectors": connectors,
        "learner_connectors": [
            part["use"] if len(part) == 1 else part for part in settings["learner_connectors"]
        ],
        "options": torso if own else {},
    }


def _others(settings: PolicySettings, game: BatchedGame, seats: list[int]) -> tuple[ObservationSpec, ...]:
    """Return what the seats after each of `seats` are shown, in turn; nothing if the value sees its own."""
    if settings.value_sees == "seat":
        return ()
    if game.num_seats == 1:
        raise ValueError(
            f"policy.value_sees: found all, but env '{game.id}' has one seat, expected two or more; set it "
            "to seat"
        )
    found = {
        tuple(game.observation_specs[(seat + after) % game.num_seats] for after in range(1, game.num_seats))
        for seat in seats
    }
    if len(found) > 1:
        raise ValueError(
            f"policy.value_sees: found all, but in env '{game.id}' the seats beside {seats} see different "
            "things, expected the same beside each; set it to seat, or give each player one seat"
        )
    return found.pop()


def _unreadable(fields: object, reason: str) -> WeightsMismatch:
    return WeightsMismatch(
        f"policy spec {_shortened(repr(fields))} cannot be read: {_shortened(reason)}; was it written by "
        "another version?"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."
