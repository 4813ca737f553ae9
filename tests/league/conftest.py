import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import pytest
import torch
import yaml

from league.cluster import cards, head
from league.commands import console
from league.commands.app import main
from league.envs import registry
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.archive import Archive, open_reader
from storage.records import Role
from tests import made_up
from tests.steps import flip_bit

torch.set_num_threads(1)

ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "error::UserWarning", "COLUMNS": "200"}

TINY = """
name: tiny
seed: 3
env: {id: tic_tac_toe}
policy: {hidden: [16]}
league:
  freeze_every: 600
  players: {main: 2, main_exploiter: 1}
rollout: {slots: 64, matches_per_request: 64}
learner: {batch_steps: 256, lr: 1e-3}
runners: 0
evaluation: {placing: 0}
stop: {env_steps: 8_000}
"""


@pytest.fixture(scope="session", autouse=True)
def no_lines_of_progress():
    """How long a command takes depends on the load of the machine; what it prints is compared here."""
    before, console.LONG_SECONDS = console.LONG_SECONDS, 3600.0
    yield
    console.LONG_SECONDS = before


@pytest.fixture(autouse=True)
def nothing_is_lost_for_good():
    """A card or a head of Ray that a test broke would end this process with the next command run in it."""
    yield
    cards._broken.clear()
    head._lost_one.clear()


@pytest.fixture(scope="session")
def tiny_config(tmp_path_factory):
    """A league that trains in a second and freezes several snapshots."""
    path = tmp_path_factory.mktemp("configs") / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def forked():
    """Runs `league` in a process of its own that has imported everything already."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )

    def run(arguments, cwd, timeout):
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            request = {"arguments": arguments, "cwd": str(cwd), "timeout": timeout}
            print(json.dumps(request | {"out": str(out), "err": str(err)}), file=server.stdin, flush=True)
            code = json.loads(server.stdout.readline())
            if code is None:
                raise subprocess.TimeoutExpired(["league", *arguments], timeout)
            return code, out.read_bytes(), err.read_bytes()

    yield run
    server.stdin.close()
    server.wait(30)
    server.stdout.close()


@pytest.fixture(scope="session")
def league_command(forked, tmp_path_factory):
    """Runs the installed command `league` and returns what it said; a copied tree runs its own.

    With runners it is a process from scratch, since a forked one may not start Ray, and Ray finds what a new
    user has: no setting for tokens, and none in the home folder.
    """
    script = Path(sys.executable).with_name("league")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "league.commands.app"]

    of_new_user = ENVIRONMENT | {"HOME": str(tmp_path_factory.mktemp("home"))}
    of_new_user.pop("RAY_AUTH_MODE", None)

    def run(*arguments, cwd=None, text=True, timeout=120):
        given = [str(argument) for argument in arguments]
        if any(argument.startswith("runners=") and argument != "runners=0" for argument in given):
            return subprocess.run(
                [*command, *given],
                cwd=cwd,
                text=text,
                capture_output=True,
                timeout=timeout,
                check=False,
                stdin=subprocess.DEVNULL,
                env=of_new_user,
            )
        code, out, err = forked(given, cwd or Path.cwd(), timeout)
        said = (out.decode(), err.decode()) if text else (out, err)
        return subprocess.CompletedProcess([*command, *given], code, *said)

    run.command = command
    return run


@pytest.fixture
def league_here(monkeypatch, capsys):
    """The same command in this process: for what is refused before it begins, without seconds of imports."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["league", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory, tiny_config, league_command):
    """A finished run. Only read it; `cp -r` it to change it. All workers of these tests share one."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    run, whole = shared / "trained" / "tiny", shared / "trained" / "whole"
    run.parent.mkdir(exist_ok=True)
    with open(shared / "trained" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            done = league_command("train", tiny_config, "--run", run)
            assert done.returncode == 0, done.stderr
            whole.touch()
    return run


@pytest.fixture(scope="session")
def tiny():
    """Makes settings of a league that freezes every few thousand steps, played and learned in one process."""

    def settings(env="rock_paper_scissors", **changes):
        made = {
            "name": "tiny",
            "env": {"id": env},
            "policy": {"hidden": [16]},
            "league": {
                "freeze_every": 1000,
                "players": {"main": 1, "main_exploiter": 1, "league_exploiter": 1},
            },
            "rollout": {"slots": 64, "matches_per_request": 128},
            "learner": {"batch_steps": 256, "lr": 3e-3},
            "evaluation": {"placing": 0.0},  # tests count matches
            "stop": {"env_steps": 100_000},
        }
        for key, value in changes.items():
            made[key] = {**made.get(key, {}), **value} if isinstance(value, dict) else value
        return made

    return settings


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Puts a module of the user's own where imports find it, of `source` (in `tmp_path`) or of `parts`."""
    written = []

    def put(name, source=None, **parts):
        monkeypatch.delitem(sys.modules, name, raising=False)
        if source is None:
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
            vars(sys.modules[name]).update(parts)
        else:
            (tmp_path / f"{name}.py").write_text(source)
            monkeypatch.syspath_prepend(str(tmp_path))
            written.append(name)
        return name

    yield put
    for name in written:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def make_run():
    """Makes runs of untrained snapshots `main-0@0`, `main-0@1`, ..., each with weights of its own."""

    def make(
        folder,
        env="tic_tac_toe",
        snapshots=4,
        *,
        options=None,
        player="main-0",
        role="main",
        hidden=(8,),
        **config,
    ):
        game = registry.make(env, 1, **(options or {}))
        spec = PolicySpec.for_game(PolicySettings(hidden=hidden), game)
        settings = {
            "env": {"id": env, "options": options or {}},
            "rollout": {"slots": 64, "step_limit": None},
            "matchmaking": {"teams": None if game.teams is None else list(game.teams)},
            "bots": {},
            "storage": {"remote": None},
        } | config
        with Archive.create(
            folder, yaml.safe_dump(settings), {"name": folder.name, "env": env, "seed": 0}
        ) as archive:
            for number in range(snapshots):
                made_up.add_snapshot(
                    archive,
                    number,
                    initial_weights(spec, number),
                    spec.to_json(),
                    player=player,
                    role=Role(role),
                    updates=number,
                )
        return folder

    return make


@pytest.fixture(scope="session")
def snapshots_run(make_run, tmp_path_factory):
    """A run of tic-tac-toe with five snapshots. Only read it."""
    return make_run(tmp_path_factory.mktemp("field") / "field", snapshots=5)


@pytest.fixture
def damaged(trained, tmp_path):
    """A copy of the run in which one bit of main-0's newest snapshot is flipped."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    newest = [s for s in open_reader(run).snapshots() if s.player == "main-0"][-1]
    path = open_reader(run).blob_path(newest)
    flip_bit(path, -2, bit=2)
    return run
