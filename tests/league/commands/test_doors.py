"""Mistakes at the doors for agents, sweeps and folders of runs: one clear line, exit code 2, nothing written.

Those at the door of `league play --browser` are in tests/league/watching/browser/test_door.py.
"""

import pytest
import torch
from safetensors.torch import save_file

NEW = "new.onnx"
MISTAKES = {
    f"export run main-1 {NEW}": "'main-1' is no snapshot, player or bot of this run; nearest: main-0@1",
    f"export run main-0@7 {NEW}": "'main-0@7' is no snapshot, player or bot of this run",
    f"export run random {NEW}": "'random' is a bot, expected a snapshot, a player, best or a mixture",
    f"export run onnx:junk.onnx {NEW}": "'onnx:junk.onnx' is a bot, expected a snapshot",
    f"export run main-0:gredy {NEW}": "mode 'gredy', expected one of: sample, greedy",
    "export run main-0 file": "file exists, expected a new place to export to; choose another",
    "export run main-0 run": "run exists, expected a new place to export to",
    "export run main-0 no/such/agent.onnx": "found no folder no/such, expected one that exists",
    f"export run main-0 {NEW} --to onxx": "did you mean 'onnx'?",
    f"export run main-0 {NEW} --decisions 0": "'--decisions'",
    "export run main-0": "Missing argument 'file'",
    f"export empty main-0 {NEW}": "empty: no file FORMAT there, expected a run folder",
    f"export nowhere main-0 {NEW}": "nowhere: no file FORMAT there, expected a run folder",
    "compare run main-0 onnx:missing.onnx": "missing.onnx: no such file, expected an ONNX file",
    "compare run main-0 onnx:junk.onnx": "junk.onnx: cannot be read as an ONNX file",
    "compare run main-0 onnx:": "did you mean 'onnx:FILE'?",
    "compare run main-0 onx:junk.onnx": "did you mean 'onnx:junk.onnx'?",
    "compare run main-0 export:missing": "missing/manifest.json: no such file, expected a folder made by",
    "compare run main-0 export:empty": "empty/manifest.json: no such file, expected a folder made by",
    "compare run main-0 sb3:missing.safetensors": "no such file, expected a state dict as safetensors",
    "compare run main-0 sb3:agent.pt": "expected a state dict that safetensors.torch.save_file has written",
    "compare run main-0 sb3:other.safetensors": "found tensors a, ..., expected fully connected layers",
    "compare run main-0 cleanrl:other.safetensors": "write other networks as ONNX, and name the file",
    "compare run main-0 cleanrl:empty": "no such file, expected a state dict as safetensors",
    "evaluate run sb3:other.safetensors": "expected fully connected layers",
    "sweep nowhere.yaml": "nowhere.yaml: cannot be read (No such file or directory), expected a YAML file",
    "sweep empty": "empty: found no sweep.json in it, expected the folder of a sweep, or a YAML file",
    "sweep kuhn.yaml --seeds 0": "'--seeds'",
    "sweep kuhn.yaml --jobs 0": "'--jobs'",
    "sweep kuhn.yaml --set learner.lr": "--set learner.lr: expected key=value, such as learner.lr=1e-3",
    "sweep kuhn.yaml --set learner.lr=1e-3,fast": "learner.lr: found 'fast'",
    "sweep kuhn.yaml --set learner.lrr=1,2": "unknown key 'learner.lrr'; did you mean 'lr'?",
    "sweep kuhn.yaml --set seed=1,2": "seeds are no axis, expected their number: --seeds N",
    "sweep kuhn.yaml --set learner.lr=1,1": "a value is given twice",
    "sweep kuhn.yaml --run run": "run: is there and no sweep, expected a new folder",
    "sweep kuhn.yaml --by strenght": "--by 'strenght': did you mean 'strength'?",
    "runs nowhere": "nowhere: no run folder in it, expected some",
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
}


@pytest.fixture(scope="module")
def place(make_run, tmp_path_factory):
    """A folder with a run, and with what is no run, no agent and no sweep."""
    place = tmp_path_factory.mktemp("doors")
    make_run(place / "run", "kuhn_poker", snapshots=2)
    (place / "empty").mkdir()
    (place / "file").touch()
    (place / "junk.onnx").write_bytes(b"not a graph")
    (place / "kuhn.yaml").write_text("env: {id: kuhn_poker}\nrunners: 0\nstop: {env_steps: 100}\n")
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
