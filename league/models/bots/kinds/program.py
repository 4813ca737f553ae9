"""Programs as bots: processes that are asked in lines of JSON, as league/PROGRAMS.md has it.

If a program says that one process plays many matches, it has no other one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import shutil
import tempfile
import time
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import BadChoice, Chosen, Look
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.process_bot import (
    START_SECONDS,
    Asked,
    LineFailed,
    LineProcess,
    ProcessBot,
    ids_in,
    sandboxed,
)
from league.models.bots.settings import ProgramSettings
from storage.arrays import Floats, Floats32, Indices
from storage.records import EndReason

PROTOCOL = 1
MOST_SHOWN = 80  # characters of a line in a message


class ProgramBot(ProcessBot):
    """Bot of a program."""

    def __init__(
        self,
        name: str,
        env_id: str,
        settings: ProgramSettings,
        observation: ObservationSpec,
        action: ActionSpec,
    ) -> None:
        """Start it once. Raise UnknownBot if it does not start, or speaks another protocol."""
        self._hello = {"type": "hello", "protocol": PROTOCOL, "game": env_id}
        self._observation = observation
        self._shared: LineProcess | None = None
        self._many = self._text = False
        words, folder = shlex.split(settings.command), None
        if settings.sandbox:
            try:
                words = sandboxed(words, settings.memory_mib, settings.cpu_seconds)
            except LineFailed as error:
                raise UnknownBot(f"bot '{name}': {error}") from None
            folder = tempfile.mkdtemp(prefix="league-program-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(name, words, settings.processes, action, folder)
        if self._many:
            self._shared, self.most_matches = self._idle[0].pop(), None

    def over(self, memory: Floats32, seat: Indices, score: Floats, reason: npt.NDArray[np.int8]) -> None:
        """Tell the program the results, and free its processes for other matches."""
        for match, own, scores, ended in zip(
            ids_in(memory).tolist(), seat.tolist(), score, reason, strict=True
        ):
            process = self._shared if self._many else self._busy.get(match)
            if process is None or not match:
                continue
            end = {"type": "end", "match": match, "seat": own, "score": float(scores[own])}
            end |= {"scores": scores.tolist(), "reason": EndReason(ended).name.lower()}
            with contextlib.suppress(LineFailed):  # it has ended, which the next decision finds
                process.send(_line(end))
        super().over(memory, seat, score, reason)

    def _greet(self, process: LineProcess, seat: int) -> None:
        shown, action = dataclasses.asdict(self._observation), self._action.to_json()
        own = None if self._many else seat
        with contextlib.suppress(LineFailed):  # it may have ended with a word
            process.send(_line(self._hello | {"seat": own, "observation": shown, "action": action}))
        line = process.line(START_SECONDS)
        try:
            found = json.loads(line)
            kind, protocol = found["type"], found["protocol"]
        except (ValueError, TypeError, KeyError, RecursionError):
            kind, protocol = "", None
        if kind != "hello" or protocol != PROTOCOL:
            said = f"protocol {protocol}" if kind == "hello" else repr(line[:MOST_SHOWN])
            raise LineFailed(f'found {said}, expected {{"type": "hello", "protocol": {PROTOCOL}}}')
        self._many, self._text = found.get("many") is True, found.get("observation") == "text"

    def _question(self, look: Look, match: int) -> Asked:
        at = look.places
        seat = 0 if at is None else int(at.seat[0])
        legal: Any = None
        if self._action.kind != "continuous":
            legal = [np.flatnonzero(look.mask[0, start:end]).tolist() for start, end in self._action.columns]
            legal = legal[0] if self._action.kind == "discrete" else legal
        left = None if look.seconds is None or np.isinf(look.seconds[0]) else round(float(look.seconds[0]), 3)
        asked: dict[str, Any] = {"type": "act", "match": match, "seat": seat, "legal": legal, "seconds": left}
        if self._text:
            asked["text"] = "" if at is None else at.game.render(int(at.slot[0]), seat)
        else:
            asked["observation"] = look.observation[0].ravel().tolist()
        return _line(asked), lambda line: self._read(line, [match])[1]

    def _ask(
        self, ids: list[int], seat: list[int], asked: list[Asked], left: Floats, chosen: Chosen, late: str
    ) -> None:
        """Ask one process for all rows, if it plays many. Raise BadChoice if it fails at any of them."""
        if not self._many:
            super()._ask(ids, seat, asked, left, chosen, late)
            return
        assert chosen.seconds is not None
        row_of = {match: row for row, match in enumerate(ids)}
        try:
            if self._shared is None or not self._shared.lives:
                self._shared = self._started(0)
            for line, _ in asked:
                self._shared.send(line)
            before = time.monotonic()
            while row_of:
                answer = self._shared.line(min(left[row] for row in row_of.values()))
                match, action = self._read(answer, list(row_of))
                row, now = row_of.pop(match), time.monotonic()
                chosen.action[row], chosen.seconds[row], before = action, now - before, now
        except LineFailed as error:
            if self._shared is not None:
                self._shared.end()
            self._shared = None
            raise BadChoice(self._told(error), error.reason, costly=True) from None

    def _read(self, line: str, asked: list[int]) -> tuple[int, npt.NDArray]:
        """Return match and action of an answer. Raise LineFailed if it is not of one of these matches."""
        try:
            found = json.loads(line)
            kind, match = found["type"], found.get("match", asked[0])
            if kind == "act" and match in asked:
                action = np.array(found["action"])
                if action.shape == self._action.shape and np.can_cast(action.dtype, self._dtype, "same_kind"):
                    with np.errstate(over="ignore"):  # infinity is no legal action
                        return match, action.astype(self._dtype)
                line = f"the action {json.dumps(found['action'])}"
            elif kind == "act":
                line = "a match that it was not asked for"
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            pass
        raise LineFailed(
            f"it answered: {line[:MOST_SHOWN]}; expected a line such as "
            '{"type": "act", "match": 1, "action": 3}',
            EndReason.ILLEGAL_ACTION,
        )


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))
