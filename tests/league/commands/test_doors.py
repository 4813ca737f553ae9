"""Mistakes in the words of a command: one clear line, exit code 2, nothing written.

Those at the door of `league play --browser` are in tests/league/watching/browser/test_door.py.
"""

import pytest
import torch
from safetensors.torch import save_file

NEW = "new.onnx"
MISTAKES = {
    f"export run main-1 {NEW}": "'main-1' is no snapshot, player or bot of this run; nearest: main-0@1",
    f"export run random {NEW}": "'random' is a bot, expected a snapshot, a player, best or a mixture",
    f"export run main-0:gredy {NEW}": "mode 'gredy', expected one of: sample, greedy",
    "export run main-0 file": "file exists, expected a new place to export to; choose another",
    "export run main-0 run": "run exists, expected a new place to export to",
    "export run main-0 no/such/agent.onnx": "found no folder no/such, expected one that exists",
    f"export run main-0 {NEW} --to onxx": "did you mean 'onnx'?",
    f"export run main-0 {NEW} --decisions 0": "'--decisions'",
    "export run main-0": "Missing argument 'file'",
    f"export empty main-0 {NEW}": "empty: no file FORMAT there, expected a run folder",
    f"export nowhere main-0 {NEW}": "nowhere: no file FORMAT there, expected a run folder",
    "compare run main-0 onnx:junk.onnx": "junk.onnx: cannot be read as an ONNX file",
    "compare run main-0 onnx:": "did you mean 'onnx:FILE'?",
    "compare run main-0 onx:junk.onnx": "did you mean 'onnx:junk.onnx'?",
    "compare run main-0 export:missing": "missing/manifest.json: no such file, expected a folder made by",
    "compare run main-0 sb3:other.safetensors": "found tensors a, ..., expected fully connected layers",
    "compare run main-7 random": "'main-7' is no snapshot, player or bot of this run; nearest: main-",
    "compare run random equilibrum": "nearest: equilibrium",
    "compare run main-0:gredy random": "mode 'gredy', expected one of: sample, greedy",
    "compare run main random": "fits several snapshots",
    "compare run main-0": "found the run run and one competitor, 'main-0', expected two",
    "compare run main-0:averge random": "did you mean 'average'?",
    "compare run main-0 nowhere:choose": "run the command in the folder of that module",
    "compare run 0.3*main-0+0.3*main-0@0 random": "the weights sum to 0.6, expected 1",
    "compare run random fnmatch:fnmatch": "takes (name, pat), expected a function choose(observation, mask,",
    "play tour main-0 main-0": "found the run of a tournament, expected that of a league",
    "replay run --where nonsense=": "condition on matches 'nonsense=': Parser Error",
    "ratings run --as-of 2999-01-31": "found a time to come, expected one of the run's past",
    "branch run new --as-of 2999-01-31": "found a time to come, expected one of the run's past",
    "envs check conect_four": "did you mean connect_four?",
    "evaluate run sb3:other.safetensors": "expected fully connected layers",
    "exploit run": "found no ID",
    "exploit run mian-0": "nearest: main-0",
    "exploit run main-0 --player main-0": "found --player beside 'main-0'",
    "exploit run main-0 --minutes 0": "--minutes: found 0",
    "exploit nowhere main-0": "expected a run folder",
    "ratings nowhere": "nowhere: no file FORMAT there, expected a run folder",
    "ratings empty": "expected a run folder",
    "snapshots run show": "Missing argument 'ID'",
    "snapshots run show main-0@7777": "nearest: main-0@",
    "snapshots run show main": "'main' fits",
    "snapshots run export": "Missing argument",
    "sweep nowhere.yaml": "nowhere.yaml: cannot be read (No such file or directory), expected a YAML file",
    "sweep empty": "empty: found no sweep.json in it, expected the folder of a sweep, or a YAML file",
    "sweep kuhn.yaml --seeds 0": "'--seeds'",
    "sweep kuhn.yaml --jobs 0": "'--jobs'",
    "sweep kuhn.yaml --set learner.lr": "--set learner.lr: expected key=value, such as learner.lr=1e-3",
    "sweep kuhn.yaml --set seed=1,2": "seeds are no axis, expected their number: --seeds N",
    "sweep kuhn.yaml --set learner.lr=1,1": "a value is given twice",
    "sweep kuhn.yaml --run run": "run: is there and no sweep, expected a new folder",
    "sweep kuhn.yaml --by strenght": "--by 'strenght': did you mean 'strength'?",
    "runs nowhere": "nowhere: no run folder in it, expected some",
    "runs empty": "empty: no run folder in it, expected some",
    "runs empty run": "No such command 'run'",
    "runs run --yes": "No such option: --yes",
    "runs run --tagged good": "no run in it has all of the tags good",
    "runs tag run no/slash": "expected up to 64 letters",
    "runs note empty text": "empty: no file FORMAT there, expected a run folder",
    "runs rm run": "would be removed for good; give --yes to do so",
    "runs rm empty --yes": "empty: no file FORMAT there, expected a run folder",
    "runs rm": "Missing argument 'RUN...'",
    "du nowhere": "nowhere: no file FORMAT there, expected a run folder",
    "du run --drop": "No such option: --drop",
    "train kuhn.yaml --set learner.lrr=1": "unknown key 'learner.lrr'; did you mean 'lr'?",
    "train kuhn.yaml --set learner.entropy=true": "learner.entropy: found True; input should be",
    "train kuhn.yaml --set runners=true": "runners: found True, expected a number",
    "train kuhn.yaml --set policy.hidden=64": "policy.hidden: found 64, expected a list",
    "train kuhn.yaml --set policy.hidden=[]": "policy.hidden: found [], expected 1 or more",
    "train kuhn.yaml --set init_from=[run]": "init_from.0: found 'run', expected a group of settings: ",
    "train kuhn.yaml --set rollout.device=cudda": "did you mean 'cuda'?",
    "train cup.yaml": "cup.yaml: found competitors, which a tournament has, expected the settings of a",
    "train s3://bucket/run --resume": "found the address s3://bucket/run, expected a config or a run folder",
    "tournament kuhn.yaml": "kuhn.yaml: found league, which a league has, expected the settings of a tour",
    "tournament run --schedule swis": "did you mean 'swiss'?",
    "train kuhn.yaml --resumee": "No such option",
    "train kuhn.yaml --run .": "choose another folder",
    "train kuhn.yaml --run empty --resume": "expected a run folder",
    "yardstick c4": "found no ID",
    "yardstick c4 mian-0": "nearest: main-0",
    "yardstick c4 main-0:greedy": "found a mode",
    "yardstick c4 main-0 --player main-0": "found --player beside 'main-0'",
    "yardstick c4 --player mian-0": "'mian-0' has no snapshots; nearest players: main-0",
    "yardstick c4 main-0 --positions nowhere.txt": "cannot be read",
    "yardstick c4 main-0 --against one_pli": "'one_pli' is no snapshot",
    "yardstick run main-0": "none are stored for 'kuhn_poker'",
    "yardstick nowhere main-0": "expected a run folder",
}


@pytest.fixture(scope="module")
def place(make_run, tmp_path_factory):
    """A folder with two runs, and with what is no run, no agent and no sweep."""
    place = tmp_path_factory.mktemp("doors")
    make_run(place / "run", "kuhn_poker", snapshots=2)
    make_run(place / "c4", "connect_four", snapshots=2)
    (place / "empty").mkdir()
    (place / "file").touch()
    (place / "junk.onnx").write_bytes(b"not a graph")
    (place / "kuhn.yaml").write_text(
        "env: {id: kuhn_poker}\nleague: {}\nrunners: 0\nstop: {env_steps: 100}\n"
    )
    (place / "cup.yaml").write_text("competitors: [{run: run}]\n")
    make_run(place / "tour", "kuhn_poker", snapshots=1, competitors=[])
    torch.save({"a": torch.ones(1)}, place / "agent.pt")
    save_file({"a": torch.ones(1)}, place / "other.safetensors")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(league_here, place, monkeypatch, command):
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    done = league_here(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("league: ")
    assert done.stderr.count("\n") == 1
    assert MISTAKES[command] in done.stderr
    assert sorted(place.rglob("*")) == before


DAMAGES = {
    "env:": ("envv:", "env: found 'envv', expected the game"),
    "  id: kuhn_poker": ("  idd: kuhn_poker", "env.id: found 'idd', expected the game"),
    "bots: {}": ("bots: 7", "bots: found 7, expected settings by name"),
    "env:\n": ("- a\nb", "cannot be read"),
}


@pytest.mark.slow
@pytest.mark.parametrize("right", DAMAGES)
@pytest.mark.parametrize(
    "command", ["evaluate run main-0", "compare run main-0 random", "train run --resume"]
)
def test_a_damaged_setting_of_a_run_is_named(league_here, place, monkeypatch, command, right):
    monkeypatch.chdir(place)
    config = place / "run" / "config.yaml"
    whole = config.read_text()
    wrong, said = DAMAGES[right]
    assert right in whole
    config.write_text(whole.replace(right, wrong, 1))
    try:
        done = league_here(*command.split())
    finally:
        config.write_text(whole)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
