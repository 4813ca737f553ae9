"""Bots that need settings: a name of the user's own for each, in the table `bots` of a config.

    mcts        OpenSpiel's tree search, with a budget of simulations
    openspiel   another bot that OpenSpiel has for the game
    export      a snapshot that was exported
    onnx        a network in an ONNX file
    function    a function of the user's own

A bot's name is what it is in results, ratings and payoffs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from league.section import Section

Mode = Literal["sample", "greedy"]
MODE = "Whether it draws its actions, or always takes the likeliest"
# kept whole, so that a run that is resumed from another folder finds it
WholePath = Annotated[
    str, Field(min_length=1), AfterValidator(lambda path: str(Path(path).expanduser().absolute()))
]


class MctsSettings(Section):
    """Monte Carlo tree search of OpenSpiel's, in games of perfect information and turns."""

    kind: Literal["mcts"]
    simulations: int = Field(description="Of each decision: what it may spend", ge=1, le=1_000_000)
    rollouts: int = Field(default=1, description="Random games from each new position", ge=1, le=10_000)
    uct_c: float = Field(
        default=2.0, description="Weight of exploration, against returns", ge=0.0, allow_inf_nan=False
    )
    solve: bool = Field(
        default=True, description="Whether a position that is decided counts as such, and ends the search"
    )


class OpenSpielSettings(Section):
    """A bot that is registered with OpenSpiel, if it can say how likely each of its actions is."""

    kind: Literal["openspiel"]
    bot: str = Field(description="Its name there, such as fixed_action_preference")
    parameters: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description='Its own, as OpenSpiel names them, such as actions: "4:0:2:6:8"'
    )


class ExportSettings(Section):
    """An exported snapshot: weights and JSON, no code."""

    kind: Literal["export"]
    folder: WholePath = Field(description="Made by: league snapshots RUN export ID DIR")
    mode: Mode = Field(default="sample", description=MODE)


class OnnxSettings(Section):
    """A network of any origin. Inputs: the observation [n, *shape], and `mask` [n, mask_width] if the graph
    has one; first output: logits [n, mask_width], or of continuous actions the actions [n, d]."""

    kind: Literal["onnx"]
    file: WholePath = Field(description="An ONNX file")
    mode: Mode = Field(default="sample", description=MODE)


class FunctionSettings(Section):
    """A function choose(observation [n, *shape], mask [n, mask_width], rng) -> actions [n, *action.shape].

    What it draws, it draws from `rng`: then seeds repeat its games, and games it repeats count once.
    """

    kind: Literal["function"]
    function: str = Field(description="module:function", pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


BotSettings = Annotated[
    MctsSettings | OpenSpielSettings | ExportSettings | OnnxSettings | FunctionSettings,
    Field(discriminator="kind"),
]
