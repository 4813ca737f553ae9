"""Programs in any language play as bots; what they do wrong forfeits, and leaves no process behind."""

import gc
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from league.envs import registry
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.process_bot import LineFailed, sandboxed
from league.models.bots.kinds.program import ProgramBot
from league.models.bots.scripted import seated_bot
from league.models.bots.settings import ProgramSettings, settings_in
from league.rollout.seats import Seats
from storage.records import EndReason

PAGE = (Path(__file__).parents[5] / "league" / "PROGRAMS.md").read_text()
EXAMPLES = {"python": "bot.py", "cpp": "bot.cpp", "sh": "bot.sh"}

LISTENER = """
import sys
open(sys.argv[1], "w").write(sys.stdin.readline())
print('{"type": "hello", "protocol": 1}', flush=True)
sys.stdin.read()
"""

PROGRAM = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    print("heard", asked["type"], file=sys.stderr, flush=True)
    if asked["type"] == "hello":
        print(json.dumps({"type": "hello", "protocol": 1, **HELLO}), flush=True)
    elif asked["type"] == "act":
        match, action = asked["match"], min(asked["legal"])
        ACT
        print(json.dumps({"type": "act", "match": match, "action": action}), flush=True)
"""


@pytest.fixture
def greeted(tmp_path):
    """Returns the line by which a program is greeted in a game of these spaces."""

    def hear(env_id, observation, action):
        (tmp_path / "listener.py").write_text(LISTENER)
        command = f"{sys.executable} {tmp_path / 'listener.py'} {tmp_path / 'heard'}"
        ProgramBot("x", env_id, ProgramSettings(kind="program", command=command), observation, action)
        return (tmp_path / "heard").read_text()

    return hear


def test_a_program_is_greeted_by_the_line_of_the_page(greeted):
    game = registry.make("connect_four", 1)
    assert greeted("connect_four", game.observation_specs[0], game.action_specs[0]) in PAGE


def test_bounds_that_an_action_lacks_are_null_as_json_has_no_infinity(greeted):
    action = ActionSpec("continuous", low=(-np.inf, 0.0), high=(1.0, np.inf))
    said = json.loads(greeted("x", ObservationSpec((2,), "float32"), action), parse_constant=pytest.fail)
    assert (said["action"]["low"], said["action"]["high"]) == ([None, 0.0], [1.0, None])


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The commands of the page's examples, by language."""
    folder = tmp_path_factory.mktemp("examples")
    for language, name in EXAMPLES.items():
        (source,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        (folder / name).write_text(source)
    subprocess.run(["g++", "-O1", "-o", folder / "bot", folder / "bot.cpp"], check=True)
    return {
        "python": f"{sys.executable} {folder / 'bot.py'}",
        "cpp": f"{folder / 'bot'}",
        "sh": f"sh {folder / 'bot.sh'}",
    }


@pytest.fixture
def program(tmp_path):
    """Makes the bot of a program that chooses the least legal action, with the code ACT before it answers."""

    def make(act="pass", hello=None, **given):
        path = tmp_path / f"program{len(list(tmp_path.iterdir()))}.py"
        path.write_text(PROGRAM.replace("ACT", act).replace("HELLO", repr(hello or {})))
        settings = ProgramSettings(kind="program", command=f"{sys.executable} {path}", **given)
        game = registry.make("connect_four", 4)
        return seated_bot("mine", "connect_four", game, {"mine": settings}).actor

    return make


def played(bots, matches=4):
    """Play matches side by side; return their ends by number, with scores, and the causes of forfeits."""
    game = registry.make("connect_four", matches)
    seats, slots, rng = Seats(game, bots, [1.0] * len(bots)), np.arange(matches), np.random.default_rng(0)
    game.reset(slots, slots)
    seats.begin(slots, np.tile(np.arange(2) % len(bots), (matches, 1)))
    ends, causes = {}, set()
    score = np.zeros((matches, 2))
    while game.active.any():
        choices = [seats.decide(block, rng) for block in game.due()]
        causes |= {why.cause for choice in choices for _, _, why in choice.failed}
        transition = game.step([choice.action for choice in choices])
        score += transition.rewards
        seats.ended(transition.ended, score[transition.ended], transition.reason)
        for slot, reason in zip(transition.ended.tolist(), transition.reason.tolist(), strict=True):
            ends[slot] = EndReason(reason), tuple(score[slot])
    return ends, causes


def children():
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.mark.slow
@pytest.mark.parametrize("language", EXAMPLES)
def test_the_examples_of_the_page_play_whole_matches_and_leave_no_process(examples, language):
    before = children()
    game = registry.make("connect_four", 1)
    bot = seated_bot(f"program:{examples[language]}", "connect_four", game, {}).actor
    ends, causes = played([bot], matches=2)
    assert {reason for reason, _ in ends.values()} == {EndReason.FINISHED}
    assert causes == set()
    del bot
    gc.collect()
    assert children() <= before


@pytest.mark.slow
@pytest.mark.parametrize("hello", [{}, {"many": True}])
@pytest.mark.parametrize(
    ("act", "reason", "cause"),
    [
        ("os._exit(7)", "ERROR", "it ended itself with exit code 7"),
        ("1 / 0", "ERROR", "it ended itself with exit code 1"),
        ("os.kill(os.getpid(), 9)", "ERROR", "killed by SIGKILL"),
        ("action = 99", "ILLEGAL_ACTION", "99 is no legal action there"),
        ("action = 'e4'", "ILLEGAL_ACTION", "it answered: the action .e4.; expected a line such as"),
        ("print('let me think', flush=True)", "ILLEGAL_ACTION", "it answered: let me think; expected"),
        ("match = -5", "ILLEGAL_ACTION", "it answered: a match that it was not asked for; expected"),
        ("os.write(1, b'[' * 2000000)", "ILLEGAL_ACTION", "it gave a line without an end"),
        ("time.sleep(600)", "TIME", "did not answer in time"),
    ],
)
def test_what_a_program_does_wrong_forfeits_its_matches_and_others_go_on(program, hello, act, reason, cause):
    before = children()
    bots = [program(f"if action: {act}", hello, limits={"move_seconds": 3.0}), program()]
    ends, causes = played(bots, matches=2)
    assert set(ends.values()) == {(EndReason[reason], (-1.0, 1.0))}
    (told,) = causes
    assert re.search(cause, told)
    if reason != "ILLEGAL_ACTION" or "99" not in cause:
        log = re.search(r"\(its log: (.*)\)", told)[1]
        assert "heard act" in Path(log).read_text()
    del bots
    gc.collect()
    assert children() <= before


@pytest.mark.slow
def test_seconds_that_are_left_are_told_and_those_of_the_match_add_up(program):
    bot = program("assert asked['seconds'] <= 60.0; time.sleep(1.0)", limits={"match_seconds": 2.5})
    ends, (cause,) = played([bot, program()], matches=1)
    assert ends == {0: (EndReason.TIME, (-1.0, 1.0))}
    assert "did not answer in time" in cause or "it has 2.5 s for a match" in cause


def test_a_program_may_ask_for_the_games_own_text_and_is_told_results(program, tmp_path):
    note = f"open({str(tmp_path / 'note')!r}, 'a').write(line)"
    bot = program(
        f"{note} if asked['text'].count('.') == 42 and 'observation' not in asked else 0",
        {"observation": "text"},
    )
    played([bot], matches=1)
    assert '"type":"act"' in (tmp_path / "note").read_text()


def test_a_process_for_each_seat_plays_one_match_after_the_other(program, tmp_path):
    bot = program(f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}} ')", processes=2)
    assert bot.most_matches == 2
    for _ in range(3):
        played([bot], matches=2)
    assert len(set((tmp_path / "pids").read_text().split())) == 4


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("./no-such-program", r"it cannot be started \(No such file or directory\)"),
        ("echo hello there", "found 'hello there', expected"),
        ("""echo '{"type":"hello","protocol":2}'""", "found protocol 2, expected"),
        ("""echo '[1]'""", "found '.1.', expected"),
        ("false", "it ended itself with exit code 1"),
    ],
)
def test_a_program_that_does_not_start_or_speaks_otherwise_is_refused_in_one_line(command, told):
    game = registry.make("connect_four", 1)
    with pytest.raises(UnknownBot, match=f"^bot 'program:.*{told}.* .its log: ") as refused:
        seated_bot(f"program:{command}", "connect_four", game, {})
    assert "\n" not in str(refused.value)


def test_a_command_takes_its_files_from_the_folder_where_it_was_given(tmp_path, monkeypatch):
    (tmp_path / "bot.py").touch()
    monkeypatch.chdir(tmp_path)
    given = settings_in("program:python3 bot.py --level 3")
    assert given.command == f"python3 {tmp_path}/bot.py --level 3"
    with pytest.raises(ValueError, match="expected a command"):
        ProgramSettings(kind="program", command="")
    with pytest.raises(ValueError, match="No closing quotation"):
        ProgramSettings(kind="program", command="'")


def may_sandbox():
    try:
        return bool(sandboxed(["true"], 100, 10))
    except LineFailed:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not may_sandbox(), reason="this machine allows no namespaces")
def test_in_a_sandbox_there_is_no_network_little_memory_and_a_folder_of_its_own(program, tmp_path):
    act = (
        "import socket; s = socket.socket(); s.settimeout(1)\n"
        "        try: s.connect(('127.0.0.1', 80)); action = 99\n"
        "        except OSError as error: action = 99 if 'refused' in str(error) else action\n"
        "        seen = [name for name in os.listdir('/proc') if name.isdigit()]\n"
        "        if os.listdir('.') or len(seen) > 2: action = 99\n"
        "        try: x = bytearray(2 ** 30); action = 99\n"
        "        except MemoryError: pass"
    )
    ends, causes = played([program(act, sandbox=True, memory_mib=400), program()], matches=1)
    assert causes == set()
    assert ends[0][0] == EndReason.FINISHED


def test_a_sandbox_that_is_not_possible_is_refused_in_one_line(program, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnknownBot, match="a sandbox needs unshare and prlimit of Linux"):
        program(sandbox=True)


@pytest.mark.slow
def test_programs_end_with_the_process_that_plays_also_when_it_is_killed(program, tmp_path):
    told = tmp_path / "pid"
    player = os.fork()
    if not player:
        try:
            bot = program(f"open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
            played([bot], matches=1)
        finally:
            os._exit(0)
    until = time.monotonic() + 60
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(player, 9)
    os.waitpid(player, 0)
    while psutil.pid_exists(int(told.read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)
