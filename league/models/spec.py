"""PolicySpec: all of a policy except its weights. It holds network settings and the spaces of its seats.

It travels with every snapshot, as JSON, so that a snapshot played months later sees and does what it
was trained on.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec, ObservationSpec, Part
from league.import_paths import is_import_path, require_trust, trust
from league.mistakes import explain
from league.models.connectors import Connector, OwnPath, seen_through
from league.models.mirror import Mirror
from league.section import Section
from storage.errors import WeightsMismatch

ARCHITECTURES = ("mlp", "cnn", "resnet")
_FIELDS = {"settings", "observation", "action"}  # of a stored spec; "others" may be missing
_OTHER = "seat after"  # name of a part that another seat sees
LONGEST_QUOTE = 300  # characters of a foreign file that a message repeats
# in which policies compute on the CPU, as settings name it; auto: whichever is faster here
Precision = Literal["float32", "bfloat16", "auto"]
MOST_UNTRIED = 2**24  # weights of layers that a machine surely has room for
IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

# bounded: a spec from a foreign file must not exhaust the memory of this process
Width = Annotated[int, Field(ge=1, le=2**16)]


class PolicySettings(Section):
    """The network of every player."""

    architecture: str = Field(
        default="mlp",
        description="mlp, cnn or resnet (boards of shape [planes, rows, columns]), or module:Class",
    )
    hidden: tuple[Width, ...] = Field(
        default=(256, 256), description="Widths of the hidden layers", min_length=1, max_length=256
    )
    activation: Literal["relu", "tanh"] = Field(default="relu", description="Nonlinearity between layers")
    channels: tuple[Width, ...] = Field(
        default=(32, 64),
        description="cnn, resnet: channels of each layer or block",
        min_length=1,
        max_length=256,
    )
    kernel: int = Field(default=3, ge=1, le=255, description="cnn, resnet: width of the square kernels, odd")
    separate_value: bool = Field(
        default=False, description="Whether the value has its own network instead of a head on the policy's"
    )
    value_sees: Literal["seat", "all"] = Field(
        default="seat",
        description="What the value is estimated from, in training: what the seat itself sees, or what all "
        "seats see (with separate_value); actions depend on the seat's own sight in any case",
    )
    memory: Literal["none", "gru", "lstm", "transformer"] = Field(
        default="none", description="Memory that connects the steps of one seat in one match"
    )
    memory_size: Width = Field(default=128, description="Width of the memory")
    context: Width = Field(
        default=16, description="transformer: number of steps it attends to, with the present one"
    )
    heads: Width = Field(default=4, description="transformer: attention heads")
    squash: bool = Field(
        default=True, description="Continuous actions: tanh into the bounds (false: clipped at them)"
    )
    mirror: Mirror | None = Field(
        default=None,
        description="mlp: a symmetry of the game that the policy has by construction; `null`: none",
    )
    connectors: tuple[Connector, ...] = Field(
        default=(),
        description="Transformations of an observation on its way to the network, in this order",
        max_length=16,
    )
    learner_connectors: tuple[OwnPath, ...] = Field(
        default=(),
        description="Functions of your own, module:function, that change the columns of episodes before they "
        "are learned from, in this order",
        max_length=16,
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments for a module:Class network"
    )

    @field_validator("options")
    @classmethod
    def _survive_json(cls, options: dict[str, Any]) -> dict[str, Any]:
        if not _is_json(options):
            raise ValueError("expected what JSON can hold: numbers, strings, lists, tables by name")
        return options

    @model_validator(mode="after")
    def _value_can_see(self) -> Self:
        if self.value_sees == "all" and (not self.separate_value or ":" in self.architecture):
            raise ValueError(
                "value_sees: found all, which is for an mlp, cnn or resnet with a network of its own for the "
                "value; set separate_value to true, or value_sees to seat"
            )
        return self

    @property
    def own_code(self) -> tuple[str, ...]:
        """Import paths of the code that such a policy is played with: its network and connectors."""
        own = (self.architecture, *(connector.kind for connector in self.connectors))
        return tuple(path for path in own if is_import_path(path))


def _is_json(found: object) -> bool:
    """Return whether `found` is unchanged by a round trip through JSON."""
    try:
        return bool(json.loads(json.dumps(found, allow_nan=False)) == found)
    except (TypeError, ValueError, RecursionError):
        return False


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

        Raise ValueError if these seats differ, or if the value is to see other seats and there are none.
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
        return PolicySpec(settings, observation, action, _others(settings, game, [s for s, *_ in spaces]))

    @staticmethod
    def for_spaces(observation: Any, action: Any, settings: PolicySettings) -> PolicySpec:
        """Return the spec of a policy for these spaces of gymnasium.

        Raise ValueError for spaces that no policy takes, and for connectors that do not fit.
        """
        if settings.value_sees == "all":
            raise ValueError("value_sees: found all, expected seat where there is no game with other seats")
        spec = PolicySpec(settings, ObservationSpec.from_space(observation), ActionSpec.from_space(action))
        spec.trust()  # a program names it
        spec.seen  # noqa: B018  # raises for connectors that do not fit
        return spec

    @property
    def architecture(self) -> str:
        """Name of the network architecture."""
        return self.settings.architecture

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
            settings.architecture == "mlp"
            and settings.memory == "none"
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
        trust(*self.own_code, *self.settings.learner_connectors)

    def require_trust(self) -> None:
        """Raise WeightsMismatch for code that the spec names and this process may not import."""
        for path in self.own_code:
            own = "architecture" if path == self.settings.architecture else "connectors"
            require_trust(f"policy.{own}", path)
        for path in self.settings.learner_connectors:
            require_trust("policy.learner_connectors", path)

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
        parts = list(seen.parts or (Part("own", seen.shape),))
        for number, other in enumerate(self.others, 1):
            theirs = other.parts or (Part("", other.shape),)
            parts += [Part(f"{_OTHER} {number} {part.name}", part.shape) for part in theirs]
        dtype = np.result_type(seen.dtype, *(other.dtype for other in self.others))
        return ObservationSpec((sum(part.size for part in parts),), str(dtype), tuple(parts))

    def __hash__(self) -> int:
        # of some fields only: settings hold a dict; equality compares all of them
        return hash((self.settings.architecture, self.settings.hidden, self.observation, self.action))

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values, for `from_json`."""
        found = {
            "settings": self.settings.model_dump(mode="json"),
            "observation": asdict(self.observation),
            "action": asdict(self.action),
        }
        return found | ({"others": [asdict(other) for other in self.others]} if self.others else {})

    @staticmethod
    def from_json(fields: Any) -> PolicySpec:
        """Read a spec. Raise WeightsMismatch if `fields` do not describe a policy of this version."""
        try:
            if not isinstance(fields, Mapping) or set(fields) - {"others"} != _FIELDS:
                raise ValueError("expected settings, observation and action")
            # strict: "8" is not 8, and a list of pairs is not a table
            settings = PolicySettings.model_validate_json(
                json.dumps(fields["settings"], allow_nan=False), strict=True
            )
            own = IMPORT_PATH.fullmatch(settings.architecture) is not None
            if not own and settings.architecture not in ARCHITECTURES:
                expected = f"{', '.join(ARCHITECTURES)} or module:Class"
                raise ValueError(f"architecture '{settings.architecture}', expected {expected}")
            if settings.options and not own:
                raise ValueError(f"architecture '{settings.architecture}' takes no options")
            spec = PolicySpec(
                settings,
                ObservationSpec.from_json(fields["observation"]),
                ActionSpec.from_json(fields["action"]),
                tuple(ObservationSpec.from_json(other) for other in fields.get("others", ())),
            )
            if bool(spec.others) != (settings.value_sees == "all"):
                raise ValueError(f"value_sees '{settings.value_sees}' with {len(spec.others)} other seats")
            if not any(is_import_path(connector.kind) for connector in settings.connectors):
                spec.learned  # noqa: B018  # raises for connectors that do not fit; own ones are not imported
        except ValidationError as error:
            raise _unreadable(fields, f"settings: {explain(error, PolicySettings)}") from None
        except KeyError as error:
            raise _unreadable(fields, f"{error} is missing") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise _unreadable(fields, str(error)) from None
        return spec


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
