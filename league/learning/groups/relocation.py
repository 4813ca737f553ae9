"""Shards move as the nodes of a cluster come and go.

    node about to leave    a place elsewhere is asked for. When it is there, the shard finishes what it has,
                           its players' states are taken, and they go on at the new place: nothing is lost
    node gone              the shard was replaced (`Replacing`), and Ray looks for a place for its group.
                           Where runners are in the way, some of them end
    no node can hold it    fewer GPUs are left: all shards are planned again for those
    GPUs are back          all shards are planned again for as many as the run asks for

Players go on from the states that were taken just before, those of a dead shard from the newest copies.
Where runners play on the learners' cards, shards are left to Ray.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from league.cluster.nodes import Seen, ShardMoves
from league.cluster.placement import Amounts, Placement
from league.cluster.reservation import Reserved, ask, ask_group, nodes_of_group, release, release_group
from league.cluster.runtime import node_id as own_node_id
from league.learning.groups.learners import LearnerLoss
from league.learning.groups.replacement import PEER_SECONDS, Replacing
from league.learning.groups.shard_learners import LearnerStopped, LearnReport, LiveWeights
from league.learning.groups.shards import Shard, bundles_of, counted, describe, plan_shards
from league.learning.settings import LearnersSettings
from storage.incidents import Incident

PATIENCE_SECONDS = 5.0  # in which Ray finds another place for a group whose node is gone
STEADY_LOOKS = 2  # at nodes with more GPUs, before all shards are planned again
KINDS = ("GPU", "CPU")
Lacking = dict[str, dict[str, float]]  # by node


class Moving(Replacing):
    """Shards of actors, each in a placement group, and what is done when its nodes come or go."""

    _settings: LearnersSettings
    _group: Reserved
    _bundles: list[list[dict[str, float]]]  # of each shard
    _placement: Placement
    seats: list[Any]

    def __init__(self, num_shards: int) -> None:
        super().__init__(num_shards)
        self._gpus = sum(shard.num_gpus for shard in self._plan)  # that the run asks for
        self._offered: dict[str, LiveWeights] = {}  # in place of those of nodes that may be cut off
        self._settle_nowhere()

    def _settle_nowhere(self) -> None:
        self._homes: list[list[str] | None] = [None] * len(self._plan)  # nodes of each shard
        self._away: dict[int, float] = {}  # shards without a place, since when
        self._coming: dict[int, Any] = {}  # groups that were asked for, for shards that are to move
        self._steady = 0

    def _lay_out(self, plan: Sequence[Shard]) -> None:
        """Note the plan, and the bundles of each shard."""
        self._plan, self._bundles = list(plan), bundles_of(plan, self._settings.aggregators)

    @abstractmethod
    def _settled(self, done: Iterable[Any]) -> list[LearnReport | LearnerStopped]:
        """Return the outcomes of blocks that are learned, without those that were dropped."""

    def live(self, player: str) -> LiveWeights:
        """Return the newest weights of `player`; those of its copy while its learner is silent elsewhere.

        A node that is cut off gives none, and runners would wait for them in matches of other players.
        """
        index, copy = self._index(player), self._copies.newest.get(player)
        homes = self._homes[index]
        late = self._is_late(index, self._shards[index])
        if copy is None or not late or homes is None or own_node_id() in homes:
            self._offered.pop(player, None)
            return self._live[player]
        if player not in self._offered:
            weights = {name: tensor.numpy() for name, tensor in copy.state.weights.items()}
            self._offered[player] = LiveWeights(copy.state.updates, self._ray.put(weights))
        return self._offered[player]

    def follow(self, seen: Seen) -> ShardMoves:
        """Move shards whose nodes are gone or about to leave; to be called after each look at the nodes."""
        moves = ShardMoves({}, waiting=False, lines=[])
        if self.seats:
            return moves
        nowhere = False
        for index in range(len(self._shards)):
            if index in self._given_up or self._is_settled(index, seen, moves.lines):
                continue
            moves = moves._replace(waiting=True)
            if index in self._coming or time.monotonic() - self._away[index] > PATIENCE_SECONDS:
                lacking = find_room(self._bundles[index], seen, self._kept(index))
                nowhere |= lacking is None
                moves.room.update(lacking or {})
        planned = sum(shard.num_gpus for shard in self._plan)
        more = not moves.waiting and planned < min(self._gpus, _gpus(seen))
        self._steady = self._steady + 1 if more else 0
        if nowhere or self._shares_a_group(seen) or self._steady >= STEADY_LOOKS:
            moves = moves._replace(waiting=True)
            moves.lines.extend(self._plan_again(seen))
        return moves

    def _is_settled(self, index: int, seen: Seen, lines: list[str]) -> bool:
        """Return whether a shard has its place; bring it to its new one if that is there."""
        homes = self._homes[index]
        if homes is None or not seen.nodes.keys() >= set(homes):
            homes = self._homes[index] = self._find_homes(index, seen)
        if homes is not None and not seen.leaving & set(homes):
            if self._away.pop(index, None) is not None:
                lines.append(f"{self._named(index)} are {_on(homes, seen)}")
            if index in self._coming:
                release_group(self._coming.pop(index))
            return True
        self._away.setdefault(index, time.monotonic())
        if index not in self._coming and (homes is not None or self._group.pinned):
            if homes is None and time.monotonic() - self._away[index] < PATIENCE_SECONDS:
                return False
            if len(self._group.groups) == len(self._plan):
                self._coming[index] = ask_group(self._bundles[index])
                if homes is not None:
                    lines.append(f"{self._named(index)} are to move: {_named(homes, seen)} about to leave")
        found = nodes_of_group(self._coming[index]) if index in self._coming else None
        if found is None or not seen.staying().keys() >= set(found):
            return False
        if homes is not None:
            self._take_states(index)
        else:
            self._note_dropped(self._drop_under_way(index))
        self._move_to(index, found)
        lines.append(f"{self._named(index)} are {_on(found, seen)}")
        return True

    def _find_homes(self, index: int, seen: Seen) -> list[str] | None:
        own = self._group.groups[index if len(self._group.groups) == len(self._plan) else 0]
        found = nodes_of_group(own)
        if found is None:
            return None
        if len(self._group.groups) < len(self._plan):  # one group of all shards: each has a part of it
            before = sum(len(bundles) for bundles in self._bundles[:index])
            found = found[before : before + len(self._bundles[index])]
        return found if seen.nodes.keys() >= set(found) else None

    def _shares_a_group(self, seen: Seen) -> bool:
        """Return whether shards are to move that have one group together."""
        if len(self._group.groups) == len(self._plan):
            return False
        return any(home in seen.leaving for homes in self._homes for home in homes or ())

    def _kept(self, index: int) -> dict[str, dict[str, float]]:
        """Return what the other shards have of each node."""
        kept: dict[str, dict[str, float]] = {}
        for other, homes in enumerate(self._homes):
            if other == index or homes is None or len(homes) != len(self._bundles[other]):
                continue
            for node_id, bundle in zip(homes, self._bundles[other], strict=True):
                own = kept.setdefault(node_id, dict.fromkeys(KINDS, 0.0))
                for kind, n in bundle.items():
                    own[kind] += n
        return kept

    def _take_states(self, index: int) -> None:
        """Let a shard finish what it has, and take its players' states and reports.

        What it has not finished then, as it died or hung meanwhile, is dropped.
        """
        for player in self._plan[index].players:
            self.state(player)
        mine = self._under_way(index)
        if mine:  # they come before the states, or hardly later
            self._outcomes += self._settled(
                self._ray.wait(mine, num_returns=len(mine), timeout=PEER_SECONDS)[0]
            )
        self._note_dropped(self._drop_sent(index))
        self._copies.forget_coming(self._plan[index].players)

    def _move_to(self, index: int, homes: list[str]) -> None:
        """Make the shard's processes again in the group that has come, and release its old one."""
        group = self._coming.pop(index)
        self._shards[index].kill()
        release_group(self._group.groups[index])
        self._group.give(index, group, sum(len(each) for each in self._bundles[:index]), len(homes))
        self._homes[index] = homes
        self._away.pop(index, None)
        self._make_again(index)

    def _plan_again(self, seen: Seen) -> list[str]:
        """Plan all shards for the GPUs that are there; return what has changed, nothing if it is in vain."""
        self._steady = 0
        settings, nodes = self._settings, list(seen.staying().values())
        gpus = [int(node.resources.get("GPU", 0)) for node in nodes]
        num_gpus, players = min(self._gpus, sum(gpus)), list(self._recruits)
        if self._gpus and not num_gpus:
            return []
        count = settings.shards and min(settings.shards, num_gpus or len(players), len(players))
        plan = plan_shards(
            num_gpus, players, settings.processes, shards=count, nodes=gpus if num_gpus else None
        )
        if _shapes(plan) == _shapes(self._plan) and not self._shares_a_group(seen):
            return []
        lost = 0
        for index, homes in enumerate(self._homes):
            if homes is not None and index not in self._given_up:
                self._take_states(index)
            else:
                lost += self._drop_under_way(index)
            self._shards[index].kill()
        self._release_coming()
        release(self._group)
        self._lay_out(plan)
        self._settle_nowhere()
        bundles = [bundle for bundles in self._bundles for bundle in bundles]
        owners = [i for i, own in enumerate(self._bundles) for _ in own]
        self._group = ask(bundles, owners, self._placement)
        self._forget_deaths(len(plan))
        self._shards = self._shards[:1] * len(plan)  # each is made again
        for index in range(len(plan)):
            self._away[index] = time.monotonic()
            self._make_again(index)
        for player in players:
            if not self._shards[self._index(player)].aggregators:
                lost += self._drop_gathered(player)
        self._note_dropped(lost)
        return [f"shards were planned again for {counted(num_gpus, 'GPU')}: {'; '.join(describe(plan))}"]

    def _note_dropped(self, steps: int) -> None:
        """Note experience that was under way to processes that are gone."""
        if not steps:
            return
        incident = Incident(
            kind="experience",
            who="experience for learners that moved",
            cause="their node was gone",
            env_steps=steps,
            remedy="learning goes on with other experience",
        )
        self._losses.append(LearnerLoss(incident))

    def _release_coming(self) -> None:
        for group in self._coming.values():
            release_group(group)
        self._coming = {}

    def _named(self, index: int) -> str:
        return f"learners of shard {index} ({', '.join(self._plan[index].players)})"


def _gpus(seen: Seen) -> int:
    return sum(int(node.resources.get("GPU", 0)) for node in seen.staying().values())


def _shapes(plan: Sequence[Shard]) -> list[tuple[int, int, tuple[int, ...]]]:
    return [(shard.num_gpus, shard.processes, shard.nodes) for shard in plan]


def _on(homes: Sequence[str], seen: Seen) -> str:
    names = list(dict.fromkeys(seen.name(home) for home in homes))
    return f"on node{'' if len(names) == 1 else 's'} {', '.join(names)}"


def _named(homes: Sequence[str], seen: Seen) -> str:
    names = list(dict.fromkeys(seen.name(home) for home in homes if home in seen.leaving))
    return f"node{'' if len(names) == 1 else 's'} {', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def find_room(bundles: Sequence[Amounts], seen: Seen, kept: Mapping[str, Amounts]) -> Lacking | None:
    """Return what is lacking on the nodes where these bundles could be; `None` if no node can hold one.

    `kept`: what other shards have of each node. The rest of a node counts as room, since runners can end;
    each bundle goes where the least is lacking. Nodes that lack nothing are left out.
    """
    room = {
        node_id: {
            kind: node.resources.get(kind, 0.0) - kept.get(node_id, {}).get(kind, 0.0) for kind in KINDS
        }
        for node_id, node in seen.staying().items()
    }
    free = {node_id: {kind: seen.free.get(node_id, {}).get(kind, 0.0) for kind in KINDS} for node_id in room}
    lacking: Lacking = {}
    for bundle in sorted(bundles, key=lambda each: [each.get(kind, 0.0) for kind in KINDS], reverse=True):
        able = [i for i, has in room.items() if all(has[kind] >= n for kind, n in bundle.items())]
        if not able:
            return None
        chosen = min(able, key=lambda i: [max(0.0, bundle.get(kind, 0.0) - free[i][kind]) for kind in KINDS])
        for kind, n in bundle.items():
            room[chosen][kind] -= n
            free[chosen][kind] -= n
    for node_id, has in free.items():
        lacks = {kind: -n for kind, n in has.items() if n < -1e-9}
        if lacks:
            lacking[node_id] = lacks
    return lacking
