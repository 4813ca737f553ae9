"""Settings of bots, in the table `bots` of a config, under names that the user chooses.

    mcts        OpenSpiel's tree search, with a budget of simulations
    openspiel   another bot that OpenSpiel has for the game
    export      a snapshot that was exported
    onnx        a network in an ONNX file
    program     a program in any language
    uci, xboard, gtp    an engine of chess, of chess, of go
    sb3, cleanrl    the state dict of a network of Stable-Baselines3 or CleanRL
    {use: ...}  a function or class of the user's own

Results, ratings and payoffs use this name. Those that are files need no name in a config: `onnx:agent.onnx`,
`sb3:ppo.safetensors:greedy` and the like are names, wherever a competitor is named.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import urllib.parse
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from league.mistakes import explain
from league.section import OwnPart, SettingsGroup, by_kind, is_own_path, kind_of
from storage.errors import Mistake
from storage.suggestions import nearest

Mode = Literal["sample", "greedy"]
MODE = "Whether actions are drawn (sample) or always the likeliest (greedy)"
# absolute, so that a run resumed from another folder finds it
WholePath = Annotated[
    str, Field(min_length=1), AfterValidator(lambda path: str(Path(path).expanduser().absolute()))
]


class Limits(SettingsGroup):
    """What a bot may take, and how often it may fail, before it forfeits or is withdrawn."""

    move_seconds: float | None = Field(
        default=None, gt=0, description="Seconds that it has for a decision; none: any time"
    )
    match_seconds: float | None = Field(
        default=None, gt=0, description="Seconds that it has for all its decisions of a match, in each seat"
    )
    failures: int | None = Field(
        default=None, ge=1, description="Matches that it forfeits before it is withdrawn; none: any number"
    )

    def within(self, others: Limits) -> Limits:
        """Return these limits, and those of `others` where it has none."""
        return Limits(**(others.model_dump(exclude_none=True) | self.model_dump(exclude_none=True)))


NO_LIMITS = Limits()


class _Limited(SettingsGroup):
    limits: Limits = Field(default=NO_LIMITS, description="Limits of this bot, before those of a tournament")


class MctsSettings(_Limited):
    """OpenSpiel's Monte Carlo tree search, for turn-based games of perfect information."""

    kind: Literal["mcts"]
    simulations: int = Field(description="Simulations per decision", ge=1, le=1_000_000)
    rollouts: int = Field(
        default=1, description="Random games played from each new position", ge=1, le=10_000
    )
    uct_c: float = Field(
        default=2.0, description="Weight of exploration relative to returns", ge=0.0, allow_inf_nan=False
    )
    solve: bool = Field(
        default=True, description="Whether proven positions are marked as solved, which ends the search early"
    )


class OpenSpielSettings(_Limited):
    """A bot that is registered with OpenSpiel and gives probabilities of its actions."""

    kind: Literal["openspiel"]
    bot: str = Field(description="Name in OpenSpiel, such as fixed_action_preference")
    parameters: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        description='Parameters of the bot, as OpenSpiel names them, such as actions: "4:0:2:6:8"',
    )


class ExportSettings(SettingsGroup):
    """An exported snapshot or mixture: weights and JSON, no code."""

    kind: Literal["export"]
    folder: WholePath = Field(description="Folder made by: league snapshots RUN export ID DIR")
    mode: Mode = Field(default="sample", description=MODE)


class OnnxSettings(_Limited):
    """A network of any origin.

    Inputs: the observation [n, *shape], and `mask` [n, mask_width] if the graph has one. First output:
    logits [n, mask_width], or for continuous actions the actions [n, d].
    """

    kind: Literal["onnx"]
    file: WholePath = Field(description="An ONNX file")
    mode: Mode = Field(default="sample", description=MODE)


class StateDictSettings(SettingsGroup):
    """A state dict of fully connected layers, as Stable-Baselines3 or CleanRL names them; no code."""

    kind: Literal["sb3", "cleanrl"] = Field(description="Library whose names the layers have")
    file: WholePath = Field(description="File of safetensors")
    activation: Literal["auto", "tanh", "relu"] = Field(
        default="auto", description="Nonlinearity between layers; auto: the library's default"
    )
    mode: Mode = Field(default="sample", description=MODE)


def _whole_command(command: str) -> str:
    """Return the command with the absolute paths of the files in it, so that it can be given anywhere."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"found {command!r}, expected a command ({error})") from None
    if not words:
        raise ValueError("found nothing, expected a command, such as: ./bot --level 3")
    for at, word in enumerate(words):
        if ("/" in word or at) and Path(word).is_file():
            words[at] = str(Path(word).absolute())
    return shlex.join(words)


Command = Annotated[str, AfterValidator(_whole_command)]
SEARCH = ("depth", "nodes", "movetime")  # options of a search; others are of the engine


class ProgramSettings(_Limited):
    """A program in any language, which reads and writes lines of JSON (league/PROGRAMS.md)."""

    kind: Literal["program"]
    command: Command = Field(description="Command that starts it, such as ./bot --level 3; no shell reads it")
    processes: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Matches that it plays side by side, with a process for each seat, unless it says that "
        "one process plays many; none: one for each core",
    )
    sandbox: bool = Field(
        default=False,
        description="Whether it runs without network, within `memory_mib` and `cpu_seconds`, in a folder of "
        "its own; by namespaces of Linux",
    )
    memory_mib: int = Field(default=1024, ge=1, description="Mebibytes that it may use in a sandbox")
    cpu_seconds: int = Field(
        default=3600, ge=1, description="Processor seconds that each of its processes may use in a sandbox"
    )


class EngineSettings(_Limited):
    """An engine of chess (UCI, XBoard) or go (GTP), in OpenSpiel's and PettingZoo's games of these."""

    kind: Literal["uci", "xboard", "gtp"] = Field(description="Protocol that it speaks")
    command: Command = Field(description="Command that starts it, such as stockfish, or gnugo --mode gtp")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        description="Of chess: depth, nodes (not of xboard) or movetime (milliseconds; of xboard whole "
        "seconds) of a search, by default movetime 100; and options of the engine, such as UCI_Elo",
    )
    processes: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Matches that it plays side by side, with a process for each seat; none: one a core",
    )

    @model_validator(mode="after")
    def _can_search(self) -> EngineSettings:
        for key in SEARCH:
            value = str(self.options.get(key, 1))
            if not (value.isascii() and value.isdigit() and int(value)):
                raise ValueError(f"options.{key}: found {value!r}, expected a whole number above 0")
        if self.kind == "xboard" and "nodes" in self.options:
            raise ValueError("options.nodes: XBoard's protocol has no nodes, expected depth or movetime")
        return self


class OwnBotSettings(_Limited, OwnPart):
    """A bot of your own, with its keyword arguments beside its path.

    A function choose(observation [n, *shape], mask [n, mask_width], rng) -> actions [n, *action.shape], or a
    class that is made with the env's id and has `act`. It should draw from `rng` alone: then seeds repeat its
    games, and repeated games count once. It runs in a process of its own.
    """


_ENGINES = ("uci", "xboard", "gtp")
_TAGS = {"cleanrl": "sb3"} | dict.fromkeys(_ENGINES, "engine")  # kinds that share their settings
BotSettings = Annotated[
    Annotated[MctsSettings, Tag("mcts")]
    | Annotated[OpenSpielSettings, Tag("openspiel")]
    | Annotated[ExportSettings, Tag("export")]
    | Annotated[OnnxSettings, Tag("onnx")]
    | Annotated[StateDictSettings, Tag("sb3")]
    | Annotated[ProgramSettings, Tag("program")]
    | Annotated[EngineSettings, Tag("engine")]
    | Annotated[OwnBotSettings, Tag("use")],
    Discriminator(lambda given: _TAGS.get(kind_of(given) or "", kind_of(given))),
    BeforeValidator(
        by_kind("", ("mcts", "openspiel", "export", "onnx", "sb3", "cleanrl", "program", *_ENGINES))
    ),
]

_FILES = ("onnx", "export", "sb3", "cleanrl")  # kinds whose name may be KIND:PATH
_MODULE = re.compile(r"[A-Za-z_]\w*")
_FUNCTION = "function"


def nearest_file(name: str) -> str | None:
    """Return what may be meant by `name`, if it begins as a misspelt KIND, or names no file after it."""
    kind, _, path = name.partition(":")
    near = nearest(kind, _FILES) if path.count(".") + path.count("/") or kind in _FILES else []
    return f"{near[0]}:{path or 'FILE'}" if near else None


def settings_in(name: str) -> BotSettings | None:
    """Return the settings of a bot that is named by its kind and its place, such as KIND:PATH; else `None`.

    A file may have its MODE behind it. A relative path is one from the present folder. An import path alone
    has none: it may be something else that has a colon. Raise Mistake for what is no command.
    """
    kind, _, path = name.partition(":")
    if kind == _FUNCTION and is_own_path(path):
        return OwnBotSettings(use=path)
    if kind == "program":
        return _of_command(ProgramSettings, name, {"command": path})
    if kind in _ENGINES:
        command, _, options = path.partition("?")
        given = dict(urllib.parse.parse_qsl(options, keep_blank_values=True))
        return _of_command(EngineSettings, name, {"command": command, "options": given})
    if kind not in _FILES or not path:
        return None
    mode: Mode = "greedy" if path.endswith(":greedy") else "sample"
    path = path.removesuffix(f":{mode}")
    if kind == "onnx":
        return OnnxSettings(kind="onnx", file=path, mode=mode)
    if kind != "export":
        return StateDictSettings.model_validate({"kind": kind, "file": path, "mode": mode})
    if _MODULE.fullmatch(path) and not Path(path).exists() and importlib.util.find_spec("export"):
        return None  # a bot of the user's own module `export`
    return ExportSettings(kind="export", folder=path, mode=mode)


def _of_command(
    kind: type[ProgramSettings | EngineSettings], name: str, given: dict[str, object]
) -> BotSettings:
    try:
        return kind.model_validate({"kind": name.partition(":")[0], **given})
    except ValidationError as error:
        raise Mistake(f"'{name}': {explain(error, kind)}") from None
