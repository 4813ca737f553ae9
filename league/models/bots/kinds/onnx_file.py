"""A network in an ONNX file as a bot, whatever it was trained with.

A file that `league export --to onnx` has written plays with its memory and its draw; of other files the
logits are read. onnxruntime runs operators of ONNX itself, on one thread of the CPU. Libraries with custom
operators are never loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Actor, BadChoice, Chosen, Look, is_certain
from league.models.bots.bot import UnknownBot, drawn, on_one_line
from league.models.bots.settings import OnnxSettings
from league.models.portable.interface import CARD, noise_of
from storage.arrays import Bools, Floats32

MASK = "mask"
LARGEST_LOGIT = np.float32(1e30)
_ERRORS_ONLY = 3
_DTYPES = {
    f"tensor({name})": np.dtype(dtype)
    for name, dtype in {
        "bool": np.bool_,
        "float": np.float32,
        "double": np.float64,
        "float16": np.float16,
        "int8": np.int8,
        "uint8": np.uint8,
        "int32": np.int32,
        "int64": np.int64,
    }.items()
}
# observations [n, *shape], masks [n, mask_width] -> the graph's first output
Run = Callable[[npt.NDArray, Bools], npt.NDArray]
RunByName = Callable[[Mapping[str, npt.NDArray]], dict[str, npt.NDArray]]


class OnnxBot(Actor):
    """Bot that draws from the logits of a graph; real numbers are its output, clipped to the bounds.

    Raise BadChoice for an output with a wrong shape or with NaN.
    """

    def __init__(self, where: str, run: Run, action: ActionSpec, greedy: bool) -> None:
        """Make the bot. `where`: its name in messages. `greedy`: always take the likeliest action."""
        self._where = where
        self._run = run
        self._action = action
        self._greedy = greedy

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        n, spec = len(look), self._action
        temperature = 0.0 if self._greedy else temperature
        output = self.output(look.observation, look.mask)
        log_prob = np.zeros(n, dtype=np.float32)
        chosen = np.zeros((n, len(spec.sizes)), dtype=np.int64)
        for choice, (start, end) in enumerate(spec.columns):
            probability = _softmax(output[:, start:end], look.mask[:, start:end])
            chosen[:, choice], of_choice = drawn(probability, rng, temperature)
            log_prob += of_choice
        action = spec.clipped(spec.joined(chosen, output[:, spec.mask_width :]))
        return Chosen(action, log_prob, look.observation, action, is_certain(log_prob, temperature))

    def output(self, observation: npt.NDArray, mask: Bools) -> Floats32:
        """Return the output of the graph, [n, mask_width + d]. Raise BadChoice."""
        try:
            output = np.asarray(self._run(observation, mask))
        except Exception as error:  # onnxruntime has many classes of errors, all below Exception
            raise BadChoice(
                f"{self._where}: of observations {list(observation.shape)} it raised {on_one_line(error)}"
            ) from error
        expected = (len(observation), self._action.width)
        if output.shape != expected or not np.issubdtype(output.dtype, np.floating):
            raise BadChoice(
                f"{self._where}: its first output is {list(output.shape)} of {output.dtype}, expected "
                f"{list(expected)} of floats for {self._action.kind} actions"
            )
        if np.isnan(output).any():
            raise BadChoice(f"{self._where}: its first output holds NaN, expected numbers")
        return output.astype(np.float32)


def _softmax(logits: Floats32, mask: Bools) -> Floats32:
    """Return probabilities [n, A], 0 where illegal; infinite logits count as very large ones."""
    logits = np.where(mask, logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT), -np.inf)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def onnx_bot(
    name: str, settings: OnnxSettings, observation: ObservationSpec, action: ActionSpec
) -> OnnxBot | AgentFileBot:
    """Return the network in `settings.file`, after a trial on observations of zeros.

    Raise UnknownBot if it cannot be read, or if it does not fit the game.
    """
    where, greedy = f"bot '{name}': {settings.file}", settings.mode == "greedy"
    session = _load(where, Path(settings.file))
    if {given.name for given in session.get_inputs()} >= OWN_INPUTS:
        bot: OnnxBot | AgentFileBot = agent_file_bot(where, session, _by_name(where, session), action, greedy)
    else:
        bot = OnnxBot(where, _runner(where, session), action, greedy)
    for n in (1, 2):  # a graph may be fixed to one number of rows
        rows = np.zeros((n, *observation.shape), dtype=observation.dtype)
        mask = np.ones((n, action.mask_width), dtype=np.bool_)
        try:
            if isinstance(bot, OnnxBot):
                bot.output(rows, mask)
            else:
                bot.decide(Look(rows, mask), np.random.default_rng(0))
        except BadChoice as error:
            raise UnknownBot(str(error)) from error
    return bot


def open_file(path: Path) -> RunByName:
    """Return a function that runs an ONNX file, by the names of inputs and outputs. Raise UnknownBot."""
    return _by_name(str(path), _load(str(path), path))


def _load(where: str, path: Path) -> Any:
    """Return a session of onnxruntime. Raise UnknownBot."""
    try:
        import onnxruntime
    except ImportError as error:
        raise UnknownBot(f"{where}: onnxruntime is not installed; pip install '.[onnx]'") from error
    if not path.is_file():
        raise UnknownBot(f"{where}: no such file, expected an ONNX file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # processes share the cores, not threads
    options.log_severity_level = _ERRORS_ONLY
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many classes of errors, all below Exception
        raise UnknownBot(f"{where}: cannot be read as an ONNX file: {on_one_line(error)}") from error


def _by_name(where: str, session: Any, outputs: int | None = None) -> RunByName:
    """Return a function that runs a graph, and gives all outputs or the first `outputs` of them.

    Arrays [n, ...] are given the types and shapes of its inputs: a board may be a flat row there, or the
    other way round. Raise UnknownBot for an input that is no number.
    """
    inputs = {given.name: (given.type, given.shape[1:]) for given in session.get_inputs()}
    for name, (of, _) in inputs.items():
        if of not in _DTYPES:
            raise UnknownBot(f"{where}: input '{name}' is a {of}, expected one of {', '.join(_DTYPES)}")
    names = [found.name for found in session.get_outputs()][:outputs]

    def run(given: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        fed = {}
        for name, (of, shape) in inputs.items():
            rows = given[name]
            fixed = all(isinstance(size, int) for size in shape)
            if fixed and math.prod(shape) == math.prod(rows.shape[1:]):
                rows = rows.reshape(len(rows), *shape)
            fed[name] = rows.astype(_DTYPES[of])
        return dict(zip(names, session.run(names, fed), strict=True))

    return run


def _runner(where: str, session: Any) -> Run:
    inputs = [given.name for given in session.get_inputs()]
    shown = [name for name in inputs if name != MASK]
    if len(shown) != 1:
        raise UnknownBot(
            f"{where}: its inputs are {', '.join(inputs) or 'none'}, expected one for the observation, and "
            f"'{MASK}' if it looks at what is legal"
        )
    run = _by_name(where, session, 1)
    return lambda observation, mask: next(iter(run({shown[0]: observation, MASK: mask}).values()))


OWN_INPUTS = {"observation", "noise"}  # that every such file has
_LARGEST_STATE = 2**24


class AgentFileBot(Actor):
    """Bot that gives a file its noise and its state, and takes the actions that it draws.

    Raise BadChoice for an error of the file, and for outputs that are no actions.
    """

    def __init__(
        self,
        where: str,
        run: RunByName,
        action: ActionSpec,
        greedy: bool,
        size: int,
        temperatures: list[float],
    ) -> None:
        """`where`: its name in messages. `size` of a row of state; `temperatures` of its members."""
        self._where, self._run, self._action, self._greedy = where, run, action, greedy
        self._temperatures = np.array(temperatures, dtype=np.float32)
        self.memory_size = size
        self.wants_reward = True

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        n = len(look)
        temperature = 0.0 if self._greedy else temperature
        zeros = np.zeros((n, self.memory_size), dtype=np.float32)
        memory = zeros if look.memory is None else look.memory
        noise = noise_of(self._action, n, rng) * np.float32(temperature)
        given = {
            "observation": look.observation,
            "mask": look.mask,
            "noise": noise,
            "state": memory.copy(),
            "reward": np.zeros(n, dtype=np.float32) if look.reward is None else look.reward,
            "draw": rng.random(n, dtype=np.float32),
        }
        try:
            found = self._run(given)
            action = self._checked(found["action"], n)
        except BadChoice:
            raise
        except Exception as error:  # onnxruntime has many classes of errors, all below Exception
            raise BadChoice(
                f"{self._where}: of observations {list(look.observation.shape)} it raised "
                f"{on_one_line(error)}"
            ) from error
        begins = memory[:, 0] == 0.0 if self._mixed else np.zeros(n, dtype=np.bool_)
        if self.memory_size:
            memory[:] = found["next_state"]
        who = memory[:, 0].astype(np.int64) - 1 if self._mixed else np.zeros(n, dtype=np.int64)
        at = self._temperatures[np.clip(who, 0, len(self._temperatures) - 1)] * np.float32(temperature)
        log_prob = self._log_prob(found, action, at)
        certain = ((at == 0.0) | (log_prob == 0.0) & (not self._action.low)) & ~begins
        return Chosen(action, log_prob, look.observation, action, certain)

    @property
    def _mixed(self) -> bool:
        return len(self._temperatures) > 1

    def _checked(self, action: npt.NDArray, n: int) -> npt.NDArray:
        expected, dtype = (n, *self._action.shape), np.dtype(self._action.dtype)
        if action.shape != expected or action.dtype != dtype or np.isnan(action).any():
            raise BadChoice(
                f"{self._where}: its actions are {list(action.shape)} of {action.dtype}, expected "
                f"{list(expected)} of {dtype}, without NaN; is it of another game?"
            )
        return action

    def _log_prob(self, found: Mapping[str, npt.NDArray], action: npt.NDArray, at: Floats32) -> Floats32:
        """Return log-probabilities [n] of choices at temperatures `at` [n]; at 0 those at 1."""
        log_prob = np.zeros(len(action), dtype=np.float32)
        if not self._action.sizes:
            return log_prob
        logits = found["logits"] / np.where(at == 0.0, np.float32(1.0), at)[:, None]
        taken = action.reshape(len(action), -1).astype(np.int64)
        for choice, (start, end) in enumerate(self._action.columns):
            part = logits[:, start:end]
            part = part - part.max(axis=1, keepdims=True)
            own = part[np.arange(len(part)), taken[:, choice]]
            log_prob += own - np.log(np.exp(part).sum(axis=1))
        return log_prob


def agent_file_bot(
    where: str, session: Any, run: RunByName, action: ActionSpec, greedy: bool
) -> AgentFileBot:
    """Return the bot of an open file. Raise UnknownBot for a state of no fixed size."""
    shapes = {given.name: given.shape for given in session.get_inputs()}
    size = shapes["state"][1] if len(shapes.get("state", ())) == 2 else 0
    if "state" in shapes and not (isinstance(size, int) and 0 < size <= _LARGEST_STATE):
        raise UnknownBot(f"{where}: its state is {shapes['state']}, expected [n, S] with a fixed S")
    card = session.get_modelmeta().custom_metadata_map.get(CARD, "")
    return AgentFileBot(where, run, action, greedy, size, _temperatures(where, card))


def _temperatures(where: str, card: str) -> list[float]:
    """Return the temperatures of the members of a file, by its card. Raise UnknownBot."""
    try:
        found = [float(one) for one in json.loads(card)["temperatures"]]
        if found and np.isfinite(found).all() and min(found) >= 0.0:
            return found
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise UnknownBot(f"{where}: it has no card '{CARD}' that can be read; write it by: league export")
