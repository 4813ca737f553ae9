"""Mistakes in the words of a command: one clear line, exit code 2, nothing written.

Those at the door of `league play --browser` are in tests/league/watching/browser/test_door.py.
"""

import shlex
import shutil

import pytest
import torch
from safetensors.torch import save_file

from storage.archive import open_reader
from storage.upkeep.exports import export_snapshot
from tests.analysis.tournaments.test_files import CSV

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
    "branch run new --as-of yesterday": "as of 'yesterday': found neither a number nor a time",
    "branch nowhere new": "nowhere: no file FORMAT there, expected a run folder",
    "branch run s3://bucket/run": "s3://bucket/run: found an address, expected a new folder",
    "branch run run": "run exists; it is a run: choose another folder",
    "compare run:main-0": "found 1 words, expected RUN A B, or RUN:A RUN:B",
    "compare run run:main-0": "expected RUN:COMPETITOR, such as runs/a:main-0",
    "compare run: run:main-0": "expected RUN:COMPETITOR",
    "compare run:main-0 nowhere:main-0": "nowhere: ",
    "compare run:main-7 run:main-0": "'main-7' is no snapshot, player or bot",
    "compare run:main-0 tour:main-0": "found the run of a tournament",
    "compare run:main-0 longer:main-0": "rollout.step_limit: found 77, expected none as in",
    "compare run main-0@0 main-0 --until 0": "until is 0, expected Elo above 0",
    "compare run main-0@0 main-0 --until nan": "until is nan, expected Elo above 0",
    "compare run main-0@0 main-0 --until 20 --sprt 0 10": "found until beside a sequential test",
    "compare run main-0@0 main-0 --sprt 0 10 --elo0 0": "expected the bounds once",
    "compare run main-0@0 main-0 --model normalized": "expected both bounds of the test",
    "config explain learner.lrr": "no key 'learner.lrr'",
    "plot nowhere ratings -o plot.pdf": "expected .svg or .png",
    "plot nowhere all -o file": "expected a folder",
    "plot run c4 payoff -o payoff.svg": "plot payoff: found 2 runs, expected one; of several there are",
    "plot run run -o strengths.svg": "found twice",
    "plot run lineage -o then.svg --as-of ²": "neither a number nor a time",
    "games run --to games.parquet --matches 5": "found --matches 5, expected competitors of a run beside it",
    "games run --to games.parquet --env connect_four": "games of 'kuhn_poker', expected those of 'connect_",
    "games run main-0 --to games.parquet --where seq=1": "found --where beside competitors",
    "games run main-0 --to games.txt": "--to games.txt: expected the name of a file .parquet",
    "games run main-0": "games of run, expected --to FILE to write them to",
    "clone games.csv new": "found a file of another kind",
    "rate --run new": "rate: found no FILE",
    "rate games.csv --run new --anchor nobody": "--anchor: 'nobody' takes no part",
    "rate games.csv --run new --anchor a=high": "--anchor: found 'a=high', expected NAME, NAME=ELO",
    "rate games.csv --run new --anchor a --anchor a=3": "--anchor: found 'a' twice",
    "rate games.csv --run new --columns home": "--columns: found 'home', expected ROLE=COLUMN",
    "rate games.csv --run new --gate 'x rating > 0'": "gate 'x rating > 0': 'x' takes no part",
    "rate games.csv/none.csv --run new": "cannot be read",
    "rate none.csv --run new": "cannot be read",
    "ratings games.csv": "a file of games is rated by: league rate games.csv",
    "config reference -o .": "expected a file in a folder that exists",
    "config reference --out missing/page.md": "expected a file in a folder that exists",
    "report run -o .": "expected a file in a folder that exists",
    "report run -o missing/page.html": "expected a file in a folder that exists",
    "report run -o page.html --as-of yesterday": "neither a number nor a time",
    "report run c4 --section my:own -o page.html": "found --section with 2 runs",
    "rules nowhere --preset none": "nowhere: no file FORMAT there, expected a run folder",
    "rules tour --preset none": "tour: found a tournament, expected the run of a league",
    "serve empty --port 0": "empty: no file FORMAT there, expected a run folder",
    "serve run --port 0 --host 203.0.113.7": "--host 203.0.113.7: it is no address of this machine",
    "serve run --port 0 --host 0.0.0.0 --token short": "--token: expected at least 16",
    "serve run --port 0 --token long-enough-for-a-token": "--token: found one without a --host",
    "sprt --counts 1,2,3": "found no --elo0 and --elo1",
    "sprt --counts 1,2,3 --elo0 0": "expected both bounds of the test",
    "sprt --counts 1,2,3 --alpha 0.1": "expected both bounds of the test",
    "sprt --elo0 0 --elo1 5": "expected either --counts W,D,L or --pairs",
    "sprt --counts 1,2,3 --pairs 1,2,3,4,5 --elo0 0 --elo1 5": "expected either --counts",
    "sprt --counts 1,2 --elo0 0 --elo1 5": "--counts is '1,2', expected 3 whole numbers",
    "sprt --pairs 1,2,3,4,-5 --elo0 0 --elo1 5": "expected 5 whole numbers",
    "sprt --counts 1,2,x --elo0 0 --elo1 5": "expected 3 whole numbers",
    "sprt --counts 0,0,0 --elo0 0 --elo1 5": "has 0 in all",
    "sprt --counts 1,2,3 --elo0 5 --elo1 0": "expected the lower first",
    "sprt --counts 1,2,3 --elo0 0 --elo1 5 --alpha 1": "alpha is 1",
    "sprt --counts 1,2,3 --elo0 0 --elo1 5 --model bayes": "model is 'bayes'",
    "sql run 'SELECT nothing FROM nowhere'": "Catalog Error: Table with name nowhere",
    "sql run \"SELECT * FROM '/etc/passwd'\"": "Catalog Error: Table with name /etc/passwd",
    "sql run ''": "found no statement",
    "tournament": "found no CONFIG and no RUN",
    "tournament run --run c4": "found the run of a league, expected that of a tournament",
    "tournament run c4 --run new": "connect_four",
    "tournament one --select main-0 --run new": "found --select beside exported folders",
    "tournament one --name main-0 --run new": "found --name beside exported folders",
    "tournament run --run new --export empty.csv": "found a folder",
    "tournament run --run new --select 'env_stps > 3'": "env_stps",
    'tournament run --run new --select "role = \'main"': "character 8",
    "tournament run --run new --select 'env_steps > 100'": "none of 2 snapshots fits env_steps > 100",
    "tournament run --run new --name main-0@7 --name main-0": "nearest: main-0@",
    "tournament run --run new --gate 'elo >> 20 against main-0'": "found '>>' at character 5",
    "tournament run --run new --gate 'elo > 20 against nobody'": "'nobody' takes no part",
    "tournament run --run new --anchor nobody": "anchors: 'nobody' takes no part",
    "tournament run --run new --schedule knockout": "schedule.kind: found 'knockout'",
    "tournament run --run new --schedule gauntlet": "expected the seeds of the gauntlet",
    "tournament run --run new --schedule gauntlet --seeds main-0@9": "main-0@9",
    "tournament run --run new --schedule top_k --set schedule.k=3": "k",
    "tournament run --run new --mode hot": "'hot'",
    "tournament c4 --run new --bot one_pli": "one_ply",
    "tournament run --run new --name main-0@0": "expected at least 2",
    "tournament run --run new --pairs 0": "schedule.pairs: found 0",
    "tournament run --run new --export table.xls": ".csv, .parquet, .json",
    "tournament run --run new --book nowhere.txt": "nowhere.txt: cannot be read",
    "tournament run --run new --set opening.ply=3": "expected one of: book, book_hash, book_per, plies",
    f"tournament run --run new --seed {2**63}": "Invalid value for '--seed'",
    "tournament run --run new --set teams=[]": "teams: found []",
    "tournament run --run new --export x.csv --export-matches ./x.csv": "expected a file for each",
    "tournament run cup.yaml --run new": "found cup.yaml beside 1 other of CONFIG | RUN",
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
    longer = shutil.copytree(place / "run", place / "longer") / "config.yaml"
    longer.write_text(longer.read_text().replace("step_limit: null", "step_limit: 77"))
    (place / "empty").mkdir()
    (place / "empty.csv").mkdir()
    (place / "games.csv").write_text(CSV)
    reader = open_reader(place / "run")
    export_snapshot(reader, reader.resolve("main-0@1"), place / "one")
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
    done = league_here(*shlex.split(command))
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
