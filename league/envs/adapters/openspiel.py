"""Any game of OpenSpiel as a batched game: `openspiel:` and a game string, such as hex(board_size=5).

Turn-based and simultaneous games, with chance and with hidden information (Lanctot et al.: OpenSpiel,
a framework for reinforcement learning in games, 2019). A match is a `pyspiel.State`; its chance nodes
are drawn from the match's seed alone. Mistakes in a name are found here, because pyspiel would print the
list of all its games.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs import chance
from league.envs.slots import SlotGame
from league.import_paths import RAISED
from storage.arrays import Floats32, Indices
from storage.suggestions import nearest

Observation = Literal["auto", "information_state", "observation"]

DRAWS = 8  # random numbers computed at once for chance nodes: a call of numpy costs more than the numbers
TERMINAL, CHANCE = -4, -1  # of pyspiel.PlayerId: values of `current_player` that are not seats


@functools.cache
def game_of(name: str) -> type[OpenSpielGame]:
    """Return the game class of OpenSpiel's game string `name`. Raise LookupError as `load` does."""
    return type("OpenSpielGame", (OpenSpielGame,), {"id": f"openspiel:{name}", "game": load(name)})


class OpenSpielGame(SlotGame):
    """Game of OpenSpiel, with one Discrete action space for all seats and float32 observations.

    `observation`: "information_state" (all that a seat has seen since the match began) or "observation"
    (what it sees now). "auto" takes the information state if the game hides information and has the
    tensor, else the observation. `loss_reward` defaults to the game's `min_utility`.

    OpenSpiel does not declare whether a game can be drawn, so draws count as possible.
    """

    id: ClassVar[str] = "openspiel"
    game: ClassVar[Any]  # a pyspiel.Game
    renders = True

    def __init__(
        self,
        num_slots: int,
        *,
        observation: Observation = "auto",
        loss_reward: float | None = None,
        step_limit: int | None = None,
    ) -> None:
        self._recalls = self._wants_recall(observation)
        game, kind = self.game, self.game.get_type()
        try:
            game.new_initial_state()  # some parameters are checked only here
            shape = (
                game.information_state_tensor_shape() if self._recalls else game.observation_tensor_shape()
            )
        except RuntimeError as error:  # pyspiel.SpielError
            raise ValueError(f"{self.id}: OpenSpiel refuses it: {sentence(error)}") from error
        if min(shape, default=1) < 1:
            raise ValueError(
                f"{self.id}: what a seat sees is shaped {shape}; are the game's parameters right?"
            )
        self._observer = _observer(game, self._recalls)
        # the library's own method, without the Python one around it
        self._see = getattr(self._observer, "_observation", self._observer).set_from
        self.num_seats = game.num_players()
        self.observation_spaces = (Box(-np.inf, np.inf, shape, np.float32),) * self.num_seats
        self.action_spaces = (Discrete(game.num_distinct_actions()),) * self.num_seats
        self.loss_reward = float(game.min_utility() if loss_reward is None else loss_reward)
        if not np.isfinite(self.loss_reward):
            raise ValueError(
                f"{self.id}: loss_reward is {self.loss_reward}, expected a number; give it as an option"
            )
        if np.isfinite(most := float(game.max_utility())) and max(-self.loss_reward, most) > 1.0:
            self.score_bounds = (self.loss_reward, most)  # it pays more than won and lost
        super().__init__(num_slots, step_limit=step_limit)
        self._pays_at_the_end = kind.reward_model.name == "TERMINAL"
        self._has_chance = kind.chance_mode.name != "DETERMINISTIC"
        self._at_once = kind.dynamics.name == "SIMULTANEOUS"
        self._hides = kind.information.name == "IMPERFECT_INFORMATION"
        self.open_state = self.open_actions = kind.information.name == "PERFECT_INFORMATION"
        # by slot * num_seats + seat; writing to a memoryview takes a third of the time of numpy
        self._rows: list[Any] = [
            row.data for row in self._seen[0][""].reshape(num_slots * self.num_seats, -1)
        ]
        self._masks = self._mask[0].reshape(num_slots * self.num_seats, -1)
        self._seed = np.zeros(num_slots, dtype=np.int64)
        self._numbers = np.zeros((num_slots, DRAWS))  # for chance nodes: a match's present block
        self._number_rows: list[Any] = [row.data for row in self._numbers]
        self._luck: list[Iterator[float]] = [iter(())] * num_slots  # the rest of the block
        self._block = [0] * num_slots  # number of the present block
        self._before = np.zeros((num_slots, self.num_seats))  # returns that were reported already
        # notes of one match after the other, until `_write`
        self._asked: list[int] = []  # slot * num_seats + seat of the seats that must act
        self._legal: list[int] = []  # their legal actions, side by side
        self._num_legal: list[int] = []
        self._paid: list[int] = []  # slots in which returns may have changed
        self._returned: list[list[float]] = []

    def _wants_recall(self, observation: Observation) -> bool:
        if observation not in get_args(Observation):
            expected = ", ".join(get_args(Observation))
            raise ValueError(f"{self.id}: observation is {observation!r}, expected one of {expected}")
        kind = self.game.get_type()
        has = {
            "information_state": kind.provides_information_state_tensor,
            "observation": kind.provides_observation_tensor,
        }
        if observation == "auto":
            hides = kind.information.name == "IMPERFECT_INFORMATION"
            return has["information_state"] and (hides or not has["observation"])
        if not has[observation]:
            other = next(name for name in has if name != observation)
            raise ValueError(f"{self.id}: observation is '{observation}', but the game only has '{other}'")
        return observation == "information_state"

    def render(self, slot: int, seat: int | None = None) -> str:
        state = self._matches[slot]
        if seat is None or not self._hides:
            return str(state)
        if self.game.get_type().provides_information_state_string:
            return state.information_state_string(seat)
        return state.observation_string(seat)

    def seen_in(self, state: Any, seat: int) -> Floats32:
        """Return what `seat` sees in a `pyspiel.State` of this game: [size], valid until the next call."""
        self._see(state, seat)
        return self._observer.tensor

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        return self._matches[slot].action_to_string(seat, int(action))

    def _make(self) -> Any:
        return self.game.new_initial_state()

    def _start_all(self, slots: Indices, seeds: Indices) -> None:
        self._before[slots] = 0.0
        if self._has_chance:
            self._seed[slots] = seeds
            self._numbers[slots] = _uniform(seeds, 0)
        for slot, seed in zip(slots.tolist(), seeds.tolist(), strict=True):
            try:
                self._matches[slot] = self._make()  # a state is one match
                self._begin(self._matches[slot], slot, seed)
            except RAISED as error:  # an error in a match ends this match, not the run
                self._crashed(slot, error)
        self._moved[slots] = self._crash[slots]
        self._write()

    def _begin(self, match: Any, slot: int, seed: int) -> None:
        self._block[slot] = 0
        self._luck[slot] = iter(self._number_rows[slot])
        self._show(match, slot, match.current_player())

    def _advance(self, match: Any, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        if match.is_simultaneous_node():
            joint = [0] * self.num_seats  # the entries of seats without actions are ignored
            for seat, action in zip(seats, actions, strict=True):
                joint[seat] = action
            match.apply_actions(joint)
        else:
            match.apply_action(actions[0])
        self._show(match, slot, match.current_player())

    def _play(self, slot: Indices, seat: Indices, action: npt.NDArray) -> None:
        if self._at_once:
            super()._play(slot, seat, action)
            return
        # one seat acts at a time; a step takes 1 us, so this loop saves calls
        self.acting[slot] = False
        matches, rows, num_seats, see = self._matches, self._rows, self.num_seats, self._see
        tensor, asked, legal, num_legal = self._observer.tensor, self._asked, self._legal, self._num_legal
        at_the_end = self._pays_at_the_end
        for place, chosen in zip(slot.tolist(), action.tolist(), strict=True):
            state = matches[place]
            try:
                state.apply_action(chosen)
                player = state.current_player()
                if player < 0 or not at_the_end:
                    self._show(state, place, player)
                    continue
                allowed = state.legal_actions()
                see(state, player)
                row = place * num_seats + player
                rows[row][:] = tensor
            except RAISED as error:  # an error in a match ends this match, not the run
                self._crashed(place, error)
                continue
            asked.append(row)
            legal += allowed  # appended at once: kept lists would drop out of the processor cache
            num_legal.append(len(allowed))
        self._moved[slot] = True
        self._report(np.flatnonzero(self._moved))

    def _show(self, state: Any, slot: int, player: int) -> None:
        """Play chance nodes; then note which seats must act, what they see, and their returns."""
        while player == CHANCE:  # take the outcome that has the next number in its share of [0, 1)
            number = next(self._luck[slot], None)
            if number is None:
                number = self._more_luck(slot)
            outcomes = state.chance_outcomes()
            for outcome, probability in outcomes:  # noqa: B007  # taken after the loop
                number -= probability
                if number < 0:
                    break
            else:  # probabilities that sum to a little less than 1
                outcome = next(outcome for outcome, probability in reversed(outcomes) if probability)
            state.apply_action(outcome)
            player = state.current_player()
        if player == TERMINAL:
            self.finished[slot] = True
        else:
            for seat in (player,) if player >= 0 else range(self.num_seats):
                legal = state.legal_actions(seat)
                if legal:  # seats without actions do not act in a simultaneous node
                    row = slot * self.num_seats + seat
                    self._see(state, seat)
                    self._rows[row][:] = self._observer.tensor
                    self._asked.append(row)
                    self._legal += legal
                    self._num_legal.append(len(legal))
        if player == TERMINAL or not self._pays_at_the_end:
            # not `rewards`: they repeat after a chance node, and in some games miss rewards by chance
            self._paid.append(slot)
            self._returned.append(state.returns())

    def _refresh(self, match: Any, slot: int) -> None:
        for seat in range(self.num_seats):
            self._rows[slot * self.num_seats + seat][:] = self.seen_in(match, seat)

    def _report(self, slots: Indices) -> None:
        self._write()
        super()._report(slots)

    def _write(self) -> None:
        """Write the notes of many matches into the arrays at once."""
        if self._asked:
            asked, legal = (np.fromiter(row, np.int64, len(row)) for row in (self._asked, self._legal))
            self._masks[asked] = False
            self._masks[asked.repeat(self._num_legal), legal] = True
            self.acting.reshape(-1)[asked] = True
        if self._paid:
            returns = np.array(self._returned)
            self.gained[self._paid] = returns - self._before[self._paid]
            self._before[self._paid] = returns
        for noted in (self._asked, self._legal, self._num_legal, self._paid, self._returned):
            noted.clear()

    def _more_luck(self, slot: int) -> float:
        """Draw the match's next block of numbers, and take the first."""
        self._block[slot] += 1
        self._numbers[slot] = _uniform(self._seed[slot : slot + 1], self._block[slot])
        self._luck[slot] = iter(self._number_rows[slot])
        return next(self._luck[slot])


def _uniform(seeds: Indices, block: int) -> npt.NDArray:
    """Return the random numbers of `block` for each seed [k], in [0, 1): [k, DRAWS]."""
    bits = chance.bits(seeds[:, None], block * DRAWS + np.arange(DRAWS))
    return (bits >> np.uint64(11)) * 2.0**-53


def _observer(game: Any, recalls: bool) -> Any:
    """Return the observer that writes what a seat sees of a state into its `tensor`."""
    pyspiel, observation = (importlib.import_module(m) for m in ("pyspiel", "open_spiel.python.observation"))
    return observation.make_observation(
        game, pyspiel.IIGObservationType(perfect_recall=True) if recalls else None
    )


def load(name: str) -> Any:
    """Return the `pyspiel.Game` of a game string.

    Raise LookupError with the nearest names, or with the reason why the game cannot be played in matches.
    """
    try:
        pyspiel = importlib.import_module("pyspiel")
        if "python_" in name:
            importlib.import_module("open_spiel.python.games")  # registers the games written in Python
    except ImportError as error:
        raise LookupError("open_spiel is not installed; pip install '.[openspiel]'") from error
    short = name.partition("(")[0]
    kinds = {kind.short_name: kind for kind in pyspiel.registered_games()}
    if short not in kinds:
        near = nearest(short, kinds, n=3, cutoff=0.5)
        remedy = f"did you mean {' or '.join(near)}?" if near else "expected a game string such as kuhn_poker"
        raise LookupError(f"OpenSpiel has no '{short}': {remedy}")
    accepted = kinds[short].parameter_specification
    try:
        for parameter in pyspiel.game_parameters_from_string(name):
            if parameter not in ("name", *accepted):
                offered = ", ".join(accepted) or "none"
                raise LookupError(f"'{short}' has no parameter '{parameter}'; its parameters: {offered}")
        game = pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise LookupError(f"OpenSpiel refuses it: {sentence(error)}") from error
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise LookupError("it is a mean-field game, expected one that is played by a number of seats")
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise LookupError(
            "it draws its chance itself, expected chance nodes, which a match's seed can decide"
        )
    if not (kind.provides_information_state_tensor or kind.provides_observation_tensor):
        raise LookupError("it has neither an information state tensor nor an observation tensor")
    return game


def sentence(error: Exception) -> str:
    """Return the library's message on one line."""
    return " ".join(str(error).split())
