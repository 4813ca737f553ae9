"""Forward passes of a learner's network, in float32 or bfloat16."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.episode import Episodes, ranges
from league.learning.data.batching import Batch, Sequences, groups, lay_out, observed, tensor_of
from league.learning.data.frames import Frames, stacked
from league.learning.data.peers import ALONE, Peers, shard_episodes
from league.learning.maths.terms import Output
from league.models.networks.memory import Packed
from league.models.networks.networks import LayeredNetwork, Network
from league.models.policies.products import even
from league.models.sending import fetched, sent
from storage.errors import Mistake


class Forward:
    """Forward passes of one network. Parameters and values are float32, whatever the precision inside.

    `forgets`: sequences begin with an empty memory, as the memories of a batch are of another network.
    """

    def __init__(self, network: Network, bfloat16: bool = False, *, forgets: bool = False) -> None:
        self.network = network
        self._bfloat16 = bfloat16
        # to lengths that oneDNN has prepared for: else an mlp of 84-256-256 learns half as fast in bfloat16.
        # Layers of a user's own may compute across rows.
        self._fills = bfloat16 and isinstance(network, LayeredNetwork)
        self.forgets = forgets

    def __call__(self, batch: Batch) -> Output:
        """Return the output [N + K] for a batch's observations."""
        if not self.network.memory_size:
            return self._at_once(batch.observation)
        memory = torch.zeros_like(batch.memory) if self.forgets else batch.memory
        return self.unroll(batch.observation, batch.layout, memory)[0]

    def rows(self, observation: Tensor) -> Output:
        """Return the output [n] for single observations [n, *shape]. Raise Mistake if there is a memory."""
        if self.network.memory_size:
            raise Mistake(
                "policy.memory: found a network with memory and a loss that sees 'batch', whose rows have no "
                "order in time; set it to none, or see 'steps'"
            )
        return self._at_once(observation)

    def unroll(self, observation: Tensor, layout: Tensor, memory: Tensor) -> tuple[Output, Tensor]:
        """Return output [M] of whole sequences, and their memories [B, S] afterwards; see Network.unroll."""
        if not self.network.memory_size:
            return self._at_once(observation), memory.float()
        with self._precision():
            parameters, value, memory = self.network.unroll(observation, layout, memory)
        return Output(parameters.float(), value.float()), memory.float()

    def _at_once(self, observation: Tensor) -> Output:
        n = len(observation)
        more = even(n) - n if self._fills and observation.device.type == "cpu" else 0
        if more:
            observation = torch.cat([observation, observation.new_zeros((more, *observation.shape[1:]))])
        with self._precision():
            parameters, value = self.network(observation)
        if more:
            parameters, value = parameters[:n], value[:n]
        return Output(parameters.float(), value.float())

    def _precision(self) -> torch.autocast:
        device = next(self.network.parameters()).device.type
        return torch.autocast(device, torch.bfloat16, enabled=self._bfloat16)


@dataclass(frozen=True, slots=True)
class Survey:
    """Memories and values of whole episodes under the present weights."""

    memory: npt.NDArray[np.float32]  # [sequences, S], at the first step of each sequence
    value: npt.NDArray[np.float32]  # [N + K], of all steps, then of the bootstraps; [0] without `values`
    parameters: Tensor | None = None  # [N + K, P] on the CPU, if they were asked for


@torch.no_grad()
def survey(
    forward: Forward,
    episodes: Episodes,
    sequences: Sequences,
    steps: int,
    device: torch.device,
    *,
    values: bool,
    parameters: int = 0,
    peers: Peers = ALONE,
    num_frames: int = 1,
) -> Survey:
    """Go through `episodes` once in order of time, about `steps` steps in one call, shared among `peers`.

    Without `values`, steps that no memory depends on are left out, such as those of an uncut episode.
    `parameters`: P, to get those of all steps' distributions too, which needs `values`; 0: none of them.
    `num_frames`: in each observation, to send each once.
    """
    size = forward.network.memory_size
    begins = np.zeros((len(sequences), size), dtype=np.float32)
    whole = values or (bool(size) and not sequences.final.all())
    mine = np.ones(len(episodes), dtype=np.bool_)
    if whole and peers.size > 1:  # else nothing is computed, and each of them knows all
        mine[:] = False
        mine[shard_episodes(np.diff(episodes.offset), peers.size)[peers.rank]] = True
    wanted = mine[sequences.episode]
    if size and episodes.memory is not None and not forward.forgets:  # fragments go on with what they had
        first = np.flatnonzero(wanted & (sequences.part == 0))
        begins[first] = episodes.memory[sequences.episode[first]]
    if not whole:
        return Survey(begins, np.zeros(0, dtype=np.float32))
    memory = sent({"memory": torch.from_numpy(begins)}, device)["memory"]
    value = torch.zeros(episodes.num_steps + len(episodes.bootstrap) if values else 0, device=device)
    found_parameters = torch.zeros(len(value) if parameters else 0, parameters, device=device)
    if not values:  # only the memories at the beginning of later parts are needed
        wanted &= ~sequences.final
    frames = Frames(episodes, num_frames) if num_frames > 1 else None
    # memory goes from part to part; without one, all parts are done at once
    turns = range(int(sequences.part.max(initial=0)) + 1) if size else [None]
    for turn in turns:
        due = np.flatnonzero(wanted if turn is None else wanted & (sequences.part == turn))
        for group in groups(sequences.length[due], steps):
            chosen = due[group]
            rows, layout = _rows(sequences, chosen, bootstraps=values)
            goes_on = np.flatnonzero(~sequences.final[chosen])
            needed = {"rows": rows, "layout": layout, "chosen": chosen, "goes_on": goes_on}
            tensors = {name: torch.from_numpy(array) for name, array in needed.items()}
            packed = Packed.of(tensors["layout"], len(rows)) if size and device.type != "cpu" else None
            if frames is None:
                seen = {"observation": tensor_of(observed(episodes, rows))}
            else:
                seen = frames.gathered(rows)
            tensors = sent(tensors | seen | ({} if packed is None else packed.tensors()), device)
            its, shown = tensors["layout"], tensors["observation"]
            found, later = forward.unroll(
                shown if frames is None else stacked(shown, tensors["places"]),
                its if packed is None else packed.with_tensors(tensors).brought_by(its),
                memory[tensors["chosen"]],
            )
            if values:
                value[tensors["rows"]] = found.value
            if parameters:
                found_parameters[tensors["rows"]] = found.parameters
            if len(goes_on):
                memory[tensors["chosen"][tensors["goes_on"]] + 1] = later[tensors["goes_on"]]
    for shared in (memory, value, found_parameters):
        if peers.size > 1 and shared.numel():
            peers.sum(shared)
    all_of = {"memory": memory, "value": value} | ({"parameters": found_parameters} if parameters else {})
    if device.type != "cpu":
        all_of = fetched(all_of)
    return Survey(all_of["memory"].numpy(), all_of["value"].numpy(), all_of.get("parameters"))


def _rows(
    sequences: Sequences, chosen: npt.NDArray[np.int64], *, bootstraps: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of the observations of whole sequences [M] and their layout in time [T, B].

    With `bootstraps`, observations that follow a truncated match are among them.
    """
    following = sequences.following[chosen]
    longer = sequences.final[chosen] & (following >= 0) & bootstraps
    length = sequences.length[chosen] + longer
    first = np.cumsum(length) - length
    rows = ranges(sequences.start[chosen], length)
    rows[(first + length - 1)[longer]] = following[longer]
    return rows, lay_out(length)
