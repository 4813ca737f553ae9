"""Matches of pages: what they show, what they refuse, how many there are."""

import json
import re

import pytest

from league.competitors.names import UnknownCompetitor
from league.watching.browser import lobby as rooms
from league.watching.browser.lobby import IDLE_SECONDS, Lobby
from storage.errors import Mistake


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def kuhn(make_run, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("kuhn") / "kuhn", "kuhn_poker", snapshots=2)


@pytest.fixture(scope="module")
def four(make_run, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("four") / "four", "connect_four", snapshots=2)


def played_out(room, match, choose=lambda offer: offer["moves"][0]["action"]):
    """The answers until the match is over."""
    answers = [match]
    while not match["over"]:
        action = {"action": [choose(match["offer"])]} if match["offer"] else {}
        match = room.go_on(match["id"], {"number": match["number"], **action})
        answers.append(match)
    return answers


def test_the_other_card_reaches_the_page_only_after_the_match(kuhn):
    room = Lobby(kuhn)
    for seed in range(6):
        answers = played_out(room, room.begin({"seats": ["human", "main-0"], "seed": seed}))
        last = answers[-1]["frames"][-1]
        own, other = re.findall(r"\w+ seat holds (\w+)", last["words"])
        for answer in answers[:-1]:
            sent = json.dumps(answer)
            assert own in sent
            assert other not in sent
        assert other in last["picture"]
        for early in answers[-1]["frames"][:-1]:
            assert other not in json.dumps(early)


def test_actions_that_a_game_does_not_show_are_named_after_the_match(kuhn, monkeypatch):
    from league.envs.games.kuhn_poker import KuhnPoker

    monkeypatch.setattr(KuhnPoker, "open_actions", False)
    room = Lobby(kuhn)
    answers = played_out(room, room.begin({"seats": ["random", "human"], "seed": 3}))
    assert all("random (first)" not in line for answer in answers for line in answer["said"])
    assert re.match(r"random \(first\): (pass|bet)", answers[-1]["over"]["hidden"][0])


def test_a_match_of_a_seed_is_the_first_that_the_terminal_plays_with_it(kuhn):
    room = Lobby(kuhn)
    first, second = (
        played_out(room, room.begin({"seats": ["main-0", "random"], "seed": 8}))[-1] for _ in range(2)
    )
    assert first["said"] == second["said"]
    from league.watching.play import play

    shown = []
    play(kuhn, ["main-0", "random"], seed=8, show=shown.append)
    lines = [line for text in shown for line in text.splitlines()]
    named = [
        line.replace("main-0 (", "main-0@1 (", 1)
        for line in lines
        if re.match(r"\S+ \(\w+\): (pass|bet|fold|call)", line)
    ]
    assert named == first["said"]


@pytest.mark.slow
def test_a_hint_has_probabilities_of_legal_actions_and_values_where_all_is_seen(four, kuhn):
    room = Lobby(four)
    match = room.begin({"seats": ["human", "main-0"], "seed": 1})
    hint = room.hint(match["id"])
    assert sum(move["probability"] for move in hint["moves"]) == pytest.approx(1.0, abs=0.001)
    assert {move["action"] for move in hint["moves"]} == set(range(7))
    assert all(isinstance(move["value"], float) for move in hint["moves"])
    assert room.look(match["id"])["number"] == match["number"]  # a hint plays nothing
    room = Lobby(kuhn)
    hint = room.hint(room.begin({"seats": ["human", "random"]})["id"])
    assert hint["by"] == "main-0@1"
    assert [move["value"] for move in hint["moves"]] == [None, None]


def test_the_value_of_a_move_that_wins_is_what_it_pays(four):
    room = Lobby(four)
    match = room.begin({"seats": ["human", "random"], "seed": 0})
    while not match["over"]:
        values = {move["action"]: move["value"] for move in room.hint(match["id"])["moves"]}
        column = 3 if any(move["action"] == 3 for move in match["offer"]["moves"]) else 0
        match = room.go_on(match["id"], {"number": match["number"], "action": [column]})
    if match["over"]["said"].startswith("You won"):
        assert values[column] == 1.0
    assert match["over"]["lines"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"seats": ["human", "nosuch"]}, "'nosuch' is no snapshot, player or bot"),
        ({"seats": ["human"]}, "found 1 competitors, 'kuhn_poker' has 2 seats"),
        ({"seats": ["human", "human"]}, "expected at most one"),
        ({"seats": ["human", "os.path:join"]}, "must be named in the run's config"),
        ({"seats": ["human", "random"], "seed": -1}, "seed"),
        ({"seats": ["human", "random"], "sed": 1}, "unknown key 'sed'; did you mean 'seed'?"),
        ({"seats": ["human", "random"], "adviser": "random"}, "'random' gives no hints"),
        ({"seats": "human"}, "seats"),
        ({"seats": ["human", "x" * 500]}, "seats"),
    ],
)
def test_a_mistake_is_one_line(kuhn, asked, said):
    with pytest.raises((Mistake, UnknownCompetitor)) as refused:
        Lobby(kuhn).begin(asked)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_alone_at_the_table_one_wins_against_no_one(make_run, tmp_path):
    room = Lobby(make_run(tmp_path / "alone", "recall", options={"length": 2}))
    over = played_out(room, room.begin({"seats": ["human"], "seed": 1}))[-1]["over"]
    assert re.match(r"Your score: -?1\. Over after 2 decisions\.", over["said"])


def test_an_action_that_is_illegal_or_late_is_refused_and_the_match_goes_on(kuhn):
    room = Lobby(kuhn)
    match = room.begin({"seats": ["human", "random"], "seed": 2})
    for action in ([7], [0.5], [0, 1], [1e300], [float("nan")]):
        with pytest.raises(Mistake, match=r"no legal action|found nan"):
            room.go_on(match["id"], {"number": match["number"], "action": action})
    with pytest.raises(Mistake, match="shows step 5 of the match"):
        room.go_on(match["id"], {"number": 5, "action": [0]})
    assert played_out(room, room.look(match["id"]))[-1]["over"]
    with pytest.raises(Mistake, match="not the person's turn"):
        room.go_on(match["id"], {"number": room.look(match["id"])["number"], "action": [0]})


def test_what_is_taken_back_can_be_played_again_and_the_answer_is_the_same(four):
    room = Lobby(four)
    match = room.begin({"seats": ["human", "main-0"], "seed": 3})
    with pytest.raises(Mistake, match="nothing to take back"):
        room.take_back(match["id"])
    answers = played_out(room, match)
    assert [answer["back"] for answer in answers[:2]] == [False, True]
    for before, after in zip(answers[-2::-1], answers[:0:-1], strict=True):
        taken = room.take_back(match["id"])
        assert taken["over"] is None
        assert [taken[key] for key in ("said", "offer")] == [before[key] for key in ("said", "offer")]
        assert taken["frames"][-1]["text"] == before["frames"][-1]["text"]
        moved = {"number": taken["number"], "action": [taken["offer"]["moves"][0]["action"]]}
        again = room.go_on(match["id"], moved)
        assert again["frames"][-1]["text"] == after["frames"][-1]["text"]
        room.take_back(match["id"])
    with pytest.raises(Mistake, match="at step"):
        room.go_on(match["id"], {"number": taken["number"], "action": [0]})


def test_idle_matches_are_dropped_and_no_more_are_kept_than_allowed(kuhn, monkeypatch):
    monkeypatch.setattr(rooms, "MOST_SITTINGS", 3)
    clock = Clock()
    room = Lobby(kuhn, clock)
    first = room.begin({"seats": ["human", "random"]})["id"]
    clock.now = IDLE_SECONDS + 1
    with pytest.raises(Mistake, match="no longer kept"):
        room.look(first)
    kept = []
    for number in range(4):
        clock.now += 1
        kept.append(room.begin({"seats": ["human", "random"], "seed": number})["id"])
    with pytest.raises(Mistake, match="begin another one"):
        room.look(kept[0])  # the longest idle one made place
    assert all(room.look(key) for key in kept[1:])
    room.leave(kept[1])
    with pytest.raises(Mistake):
        room.look(kept[1])


def test_matches_make_place_for_one_whose_weights_would_be_too_many(kuhn, monkeypatch):
    room = Lobby(kuhn)
    first = room.begin({"seats": ["human", "main-0"]})["id"]
    size = room._kept[first].bytes
    assert size > 0
    monkeypatch.setattr(rooms, "MOST_BYTES", 2 * size - 1)
    second = room.begin({"seats": ["human", "main-0"]})["id"]
    assert room.look(second)
    with pytest.raises(Mistake, match="no longer kept"):
        room.look(first)
    monkeypatch.setattr(rooms, "MOST_BYTES", size - 1)
    with pytest.raises(Mistake, match="GB of weights, expected at most"):
        room.begin({"seats": ["human", "main-0"]})


def test_text_of_a_game_cannot_become_markup():
    from league.envs.scene import Hand, Item, Tabletop
    from league.watching.browser.pictures import draw

    evil = "<script>alert(1)</script>"
    scene = Tabletop([Hand(0, [Item(evil, suit=evil)], note=evil)], evil, [Item(evil)], notes=[evil])
    svg = draw(scene, None, 0, [evil]).svg
    assert "<script" not in svg
    assert "&lt;scr" in svg
