"""Matches as text: watched, played along by a person, or shown again from what was recorded."""

import contextlib
import re
import signal
import subprocess

import numpy as np
import pytest
import yaml
from gymnasium.spaces import Box, MultiDiscrete

import league
from league.envs.base import BatchedGame
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.watching.browser.lobby import Lobby
from league.watching.play import play, show_recorded
from league.watching.words import ordinal
from storage.archive import Archive, open_reader
from storage.errors import Mistake
from storage.records import EndReason, Outcome, Purpose
from tests import made_up


class Desk:
    """Remembers what was shown, and answers what it was told to, then nothing any more."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.shown = []

    def show(self, text):
        self.shown.append(text)

    def ask(self, prompt):
        self.shown.append(prompt)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)

    @property
    def text(self):
        return "\n".join(self.shown)


class Levers(BatchedGame):
    """Both seats act at once, in three rounds; the match of an odd seed breaks in the second one."""

    id = "levers"
    num_seats = 2
    observation_spaces = (Box(0, 1, (1,), np.float32),) * 2
    action_spaces = (MultiDiscrete([2, 3]), Box(np.float32([-1, 0]), np.float32([1, 5])))
    renders = True
    broken = True

    def observe(self, slot, seat):
        return np.zeros((len(slot), 1), np.float32)

    def legal(self, slot, seat):
        return np.tile(np.array([True, True, False, True, True])[: 5 - 5 * int(seat[0])], (len(slot), 1))

    def render(self, slot, seat=None):
        return f"round {self.env_steps[slot] // 2}, as {'all' if seat is None else seat}"

    def _reset(self, slots, seeds):
        self.odd = seeds % 2 == 1

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile([0, 1], len(slot))

    def _play(self, slot, seat, action):
        self._over[:] = self.env_steps == 6
        if self.broken and self.odd[0] and self.env_steps[0] == 4:
            self._over[:], self._reason[:] = True, EndReason.CRASH


class Mute(Levers):
    renders = False


class Careless:
    """A bot that never takes a legal action."""

    def __init__(self, env_id):
        self.env_id = env_id

    def act(self, observation, mask, rng, greedy):
        return np.full(len(mask), -5), np.zeros(len(mask), np.float32)


class Steady:
    """Plays what is legal for either seat of Levers."""

    def __init__(self, env_id):
        self.env_id = env_id

    def act(self, observation, mask, rng, greedy):
        return np.tile([0, 1], (len(mask), 1)), np.zeros(len(mask), np.float32)


@pytest.fixture(autouse=True)
def own(own_module):
    """The parts above by import path, whatever name pytest imported this file by."""
    own_module("own_tables", Levers=Levers, Mute=Mute, Careless=Careless, Steady=Steady)


@pytest.fixture
def run_of(tmp_path):
    """A run of that game without any snapshot, and the matches in it, all recorded."""

    def make(env, num_matches=0, bots=("random",), seeds=None):
        config = {
            "env": {"id": env, "options": {}},
            "league": {},
            "rollout": {"slots": 1, "step_limit": None},
        }
        run = tmp_path / env.rpartition(":")[2]
        with Archive.create(run, yaml.safe_dump(config), {"name": "x", "env": env, "seed": 0}) as archive:
            if not num_matches:
                return run, None
            seat = np.tile(np.arange(2) % len(bots), (num_matches, 1)).astype(np.int32)
            matches = made_up.matches(
                bots,
                seat,
                env=env,
                purpose=Purpose.EVALUATION,
                match_id=100 + np.arange(num_matches),
                seed=seeds,
            )
            runner = EnvRunner(PlaySetup(env, {}, RolloutSettings(slots=1, record=1.0)))
            request = PlayRequest(matches, tuple(BotSource(bot) for bot in bots), (), seed=5)
            results, _, _ = runner.play(request, {})
            archive.append_results(results, [])
        return run, results

    return make


def watch(run, *names, **options):
    desk = Desk()
    play(run, names, show=desk.show, ask=desk.ask, **options)
    return desk


def moves(desk):
    """(seat and name, action) of each decision that was shown."""
    lines = desk.text.splitlines()
    return [line.split(": ", 1) for line in lines if re.match(r"\S+ \(\w+\): [a-c][1-3]", line)]


# ---------------------------------------------------------------- watching


def test_every_position_and_every_move_is_shown_and_the_result_at_the_end(trained):
    desk = watch(trained, "main-0", "random", seed=2)
    (decisions,) = re.findall(r"over after (\d+) decisions", desk.text)
    assert len(moves(desk)) == desk.text.count("to play") == int(decisions)
    assert [who for who, _ in moves(desk)[:2]] == ["main-0 (first)", "random (second)"]
    assert len({cell for _, cell in moves(desk)}) == int(decisions)
    ends = re.findall(r"^(\S+) \(\w+\): (win|draw|loss), score (-?\d)$", desk.text, re.MULTILINE)
    assert [name for name, _, _ in ends] == ["main-0", "random"]
    assert {kind for _, kind, _ in ends} in ({"win", "loss"}, {"draw"})
    assert sum(int(score) for _, _, score in ends) == 0


@pytest.mark.slow
def test_the_same_seed_shows_the_same_games_and_totals_count_them(trained):
    first, again, other = (watch(trained, "main-0", "main-1", seed=s, games=4) for s in (3, 3, 4))
    assert first.shown == again.shown != other.shown
    assert "--- game 4 of 4" in first.text
    totals = first.shown[-2:]
    for seat in range(2):
        kinds = re.findall(rf"^main-{seat} \({ordinal(seat)}\): (\w+), score", first.text, re.MULTILINE)
        assert len(kinds) == 4
        counted = dict(re.findall(r"(win|draw|loss|forfeit) (\d)", totals[seat]))
        assert counted == {kind: str(kinds.count(kind)) for kind in set(kinds)}


def test_every_move_is_followed_by_the_delay(trained, monkeypatch):
    slept = []
    monkeypatch.setattr("league.watching.play.time.sleep", slept.append)
    desk = watch(trained, "random", "random", delay=0.25)
    assert slept == [0.25] * len(moves(desk))


@pytest.mark.slow
def test_a_policy_whose_value_sees_all_seats_trains_and_is_watched_without_its_value(tiny, tmp_path):
    policy = {"hidden": [8], "separate_value": True, "value_sees": "all"}
    run = league.train(
        tiny("kuhn_poker", policy=policy, runners=0, stop={"env_steps": 2_000}), tmp_path / "run"
    )
    desk = watch(run, "main-0", "main-0", verbose=True)
    assert len(open_reader(run).snapshots()) > 1
    assert "   [" in desk.text
    assert "value" not in desk.text


def test_verbose_tells_what_policies_thought_and_changes_no_move(trained):
    plain, told = (watch(trained, "main-0", "random", verbose=verbose) for verbose in (False, True))
    assert [m.split("   [")[0] for _, m in moves(told)] == [m for _, m in moves(plain)]
    thoughts = [m.partition("   [")[2] for _, m in moves(told)]
    assert all(thoughts[0::2])
    assert not any(thoughts[1::2])
    for thought in thoughts[0::2]:
        shares = [float(share) for share in re.findall(r"[abc][123] (\d\.\d\d)", thought)]
        assert shares == sorted(shares, reverse=True)
        assert re.search(r"value [+-]\d\.\d\d\]$", thought)
    assert len(thoughts) >= 5  # so that all cells are named by which the last shares sum to one
    assert sum(shares) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["main-0"], "found 1 competitors, 'tic_tac_toe' has 2 seats"),
        (["main-0", "perfekt"], "'perfekt' is no snapshot, player or bot"),
        (["main-0:best", "random"], "mode 'best'"),
    ],
)
def test_names_must_fill_the_seats(trained, names, message):
    with pytest.raises(Mistake, match=message):
        watch(trained, *names)


@pytest.mark.slow
def test_a_game_without_text_cannot_be_watched(run_of):
    run, _ = run_of("own_tables:Mute", 1, ["own_tables:Steady"])
    with pytest.raises(Mistake, match="'own_tables:Mute' cannot be shown as text"):
        watch(run, "random", "random")
    with pytest.raises(Mistake, match="'own_tables:Mute' cannot be shown as text"):
        show_recorded(run, 100, show=Desk().show)


# ---------------------------------------------------------------- a person


def test_a_bot_that_fails_forfeits_with_its_cause_and_the_match_is_over(snapshots_run, own_module):
    own_module("silent_bot", "def choose(observation, mask, rng):\n    raise ValueError('no idea')\n")
    desk = Desk()
    play(snapshots_run, ["main-0", "silent_bot:choose"], show=desk.show)
    assert "silent_bot:choose (second) forfeits: bot function 'silent_bot:choose': it raised" in desk.text
    assert "silent_bot.py, line 2, in choose)" in desk.text
    assert "silent_bot:choose (second): no answer" in desk.text
    assert "over after 2 decisions, by an error of a competitor" in desk.text
    assert "silent_bot:choose (second): forfeit, score -1" in desk.text


def test_a_person_is_asked_until_the_answer_is_a_number_or_a_name_from_the_list(trained):
    cells = [str(cell) for _ in range(9) for cell in range(9)]
    desk = Desk("nonsense", "", "1.5", "-1", "9", "99999999999999999999", " B2 ", *cells)
    play(trained, ["human", "random"], show=desk.show, ask=desk.ask)
    refused = re.findall(r"'(.*)' is no legal action here", desk.text)
    assert refused[:6] == ["nonsense", "", "1.5", "-1", "9", "99999999999999999999"]
    assert "0 a1, 1 b1, 2 c1, 3 a2, 4 b2" in desk.text
    assert moves(desk)[0] == ["human (first)", "b2"]
    second = desk.text.index("you (first)> ", desk.text.index("you (first)> ") + len("you (first)> ") * 7)
    assert "4 b2" not in desk.text[second:].partition("what was played")[0]


def test_a_person_sees_its_own_cards_only_and_what_others_did_after_the_match(run_of):
    run, _ = run_of("leduc_poker")
    desk = Desk(*["check", "call"] * 20)
    play(run, ["random", "human"], show=desk.show, ask=desk.ask, games=5)
    during, after = [], []
    for game in desk.text.split("--- game ")[1:]:
        before, _, behind = game.partition("what was played:")
        before = before[: before.rindex("public:")]  # the last position is shown to all
        during.append(before)
        after.append(behind)
    asked = [game for game in during if "you (second)> " in game]
    assert len(asked) >= 3
    for game in asked:
        assert "first seat: ?" in game
        assert not re.search(r"first seat: (jack|queen|king)", game)
        assert "random (first)" not in game
    assert all(re.search(r"random \(first\): (fold|check|call|raise)", game) for game in after)


def test_several_choices_and_real_numbers_are_read_as_numbers(run_of):
    run, _ = run_of("own_tables:Levers")
    wrong = ["1", "1 0 0", "1 0", "2 1", "one 1"]  # the first of the second three is not legal
    reals = ["0.5", "2 0", "nan 0", "-0.25 4.5"]
    desk = Desk(*wrong, "1 2", *reals, *["0 1", "0 0"] * 5)
    play(run, ["human", "human"], show=desk.show, ask=desk.ask, seed=1, games=2)
    refused = re.findall(r"'(.*)' is no legal action here, expected 2 numbers", desk.text)
    assert refused == [*wrong, *reals[:-1]]
    assert "0 1; 1 2\n" in desk.text
    assert "-1 to 1; 0 to 5\n" in desk.text
    assert desk.shown[0:2] == ["--- game 1 of 2", "round 0, as 0"]
    assert "human (first): 1 2\nhuman (second): -0.25 4.5" in desk.text


def test_a_person_who_leaves_ends_the_play(trained):
    desk = Desk("b2")
    with pytest.raises(EOFError):
        play(trained, ["human", "perfect"], show=desk.show, ask=desk.ask)
    assert "over after" not in desk.text


# ---------------------------------------------------------------- recorded matches


@pytest.mark.slow
def test_a_recorded_match_is_shown_as_it_was_played(run_of):
    run, results = run_of("tic_tac_toe", 6, ("random", "one_ply"))
    for i in range(6):
        desk = Desk()
        show_recorded(run, 100 + i, show=desk.show)
        assert f"over after {results.env_steps[i]} decisions" in desk.text
        for seat, name in enumerate(("random", "one_ply")):
            kind = Outcome(results.outcome[i, seat]).name.lower()
            assert f"{name} ({ordinal(seat)}): {kind}, score {results.score[i, seat]:g}" in desk.shown
        assert len(moves(desk)) == results.env_steps[i]


def test_a_recorded_match_is_played_back_in_the_browser_with_a_picture_of_each_step(run_of):
    run, results = run_of("tic_tac_toe", 2, ("random", "one_ply"))
    room = Lobby(run)
    assert [one["id"] for one in room.recordings()] == ["101", "100"]
    shown = room.playback(100)
    assert len(shown["frames"]) == results.env_steps[0] + 1
    assert [frame["picture"].count('"piece') for frame in shown["frames"]] == [*range(len(shown["frames"]))]
    assert f"one_ply (second): {Outcome(results.outcome[0, 1]).name.lower()}" in shown["ended"]
    with pytest.raises(Mistake, match="match 7 was not recorded"):
        room.playback(7)


def test_a_match_that_broke_is_played_back_as_far_as_it_was_recorded(run_of):
    run, _ = run_of("own_tables:Levers", 1, ["own_tables:Steady"], seeds=[7])
    shown = Lobby(run).playback(100)
    assert [frame["text"] for frame in shown["frames"]] == ["round 0, as all", "round 1, as all"]
    assert shown["ended"].startswith("Over after 4 decisions: the game broke.")


def test_numbers_are_typed_where_a_game_has_no_names_and_others_choices_kept_back(run_of, monkeypatch):
    monkeypatch.setattr(Levers, "broken", False)
    run, _ = run_of("own_tables:Levers")
    room = Lobby(run, bots=["own_tables:Steady"])
    match = room.begin({"seats": ["human", "own_tables:Steady"], "seed": 1})
    assert match["offer"] == {"moves": [], "more": True, "numbers": 2, "help": "0 1; 1 2"}
    with pytest.raises(Mistake, match="'1 0' is no legal action here"):
        room.go_on(match["id"], {"number": 0, "action": [1, 0]})
    for number in range(3):
        match = room.go_on(match["id"], {"number": number, "action": [1, 2]})
    assert match["said"] == ["you (first): 1 2"] * 3
    assert len(match["over"]["hidden"]) == 3


@pytest.mark.slow
def test_a_recorded_forfeit_shows_what_was_illegal(run_of):
    run, _ = run_of("tic_tac_toe", 1, ("random", "own_tables:Careless"))
    desk = Desk()
    show_recorded(run, 100, show=desk.show)
    assert "own_tables:Careless (second): -5, which is illegal" in desk.text.splitlines()
    assert "over after 2 decisions, by an illegal action" in desk.shown
    assert "own_tables:Careless (second): forfeit, score -1" in desk.shown


@pytest.mark.slow
def test_a_match_that_broke_is_shown_as_far_as_it_was_recorded(run_of, monkeypatch):
    run, _ = run_of("own_tables:Levers", 2, ["own_tables:Steady"], seeds=[7, 8])
    desk = Desk()
    show_recorded(run, 100, show=desk.show)
    assert "over after 4 decisions: the game broke" in desk.shown
    monkeypatch.setattr(Levers, "broken", False)
    desk = Desk()
    show_recorded(run, 100, show=desk.show)
    assert desk.shown[-2:] == ["round 2, as all", "nothing more was recorded"]
    desk = Desk()
    show_recorded(run, 101, show=desk.show)
    assert "over after 6 decisions" in desk.shown


# ---------------------------------------------------------------- the command


@pytest.mark.slow
def test_the_command_shows_games_and_lets_a_person_leave(league_command, trained):
    done = league_command("play", trained, "perfect", "human", "--seed", 3)  # nobody is at standard input
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("  a b c")
    assert done.stdout.endswith("you (second)> \nyou left the table\n")
    done = league_command("play", trained, "perfect", "--match", 3)
    assert done.returncode == 2
    assert done.stderr == "league: play: found 'perfect' beside --match, expected one of the two\n"


@pytest.mark.long
def test_ctrl_c_at_the_table_ends_with_130_and_no_traceback(league_command, trained):
    playing = subprocess.Popen(
        [*league_command.command, "play", trained, "human", "random"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # whoever runs the tests in the background has Ctrl-C ignored, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        shown = b""
        while b"you (first)> " not in shown:
            character = playing.stdout.read(1)
            assert character, playing.stderr.read()
            shown += character
        for _ in range(6):  # one that comes between the prompt and the look for input waits for some input
            playing.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                playing.wait(timeout=60)  # with its input open: the end of that is another way to leave
                break
        _, errors = playing.communicate()
    finally:
        playing.kill()
    assert playing.returncode == 130
    assert b"Traceback" not in errors
