"""A stranger's folder runs no code, writes nothing outside the run, and hears in a sentence why."""

import json
import shutil
import subprocess
import sys

import pytest

import league
import storage
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.archive import Archive, open_reader
from storage.errors import StorageError
from storage.records import MAIN, LivePlayer
from storage.upkeep.exports import export_snapshot
from tests.storage.faults.counts import figure, tried
from tests.storage.hostile.limited import limited
from tests.storage.hostile.malicious_exports import REFUSED, TAKEN

pytestmark = pytest.mark.long

CONFIG = "env: {id: tic_tac_toe, options: {}}\n"
SPEC = PolicySpec(
    PolicySettings(hidden=(4,)), ObservationSpec((18,), "float32"), ActionSpec("discrete", (9,))
)
ATTACKS = REFUSED | TAKEN
MEMORY_BYTES = 256 * 2**20  # beyond what was taken before


def write_run(run, *env_steps):
    """A run of `main-0`, frozen at these steps."""
    with Archive.create(run, CONFIG, {"name": "x", "env": "tic_tac_toe", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        for steps in env_steps:
            tensors = initial_weights(SPEC, steps)
            archive.add_snapshot("main-0", MAIN, steps, 0, None, tensors, SPEC.to_json(), "mlp", "test")


def letter(place, attack):
    """The folder of a stranger."""
    return place / "letters" / str(list(ATTACKS).index(attack))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run at home, a letter box of folders from strangers, and an honest one."""
    root = tmp_path_factory.mktemp("hostile")
    write_run(root / "home" / "run", 0)
    write_run(root / "theirs", 6, 7)
    reader = open_reader(root / "theirs")
    export_snapshot(reader, reader.resolve("main-0@6"), root / "honest")
    export_snapshot(reader, reader.resolve("main-0@7"), root / "original")
    (root / "letters").mkdir()
    for name, attack in ATTACKS.items():
        shutil.copytree(root / "original", letter(root, name))
        attack(letter(root, name), root / "canary")
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def outcomes(place):
    """Of each attack, what came of it."""
    honest, letters = str(place / "honest"), [str(letter(place, attack)) for attack in ATTACKS]
    room_bytes = 16 * 2**30  # the run's DuckDB crashes where the address space is short
    home = str(place / "home")
    found = limited("watched_imports:import_all", home, honest, letters, room_bytes=room_bytes)
    return dict(zip(ATTACKS, found, strict=True))


def test_the_watch_sees_code_that_runs_and_the_canary_is_one(tmp_path):
    seen = limited("watched_imports:provoked", str(tmp_path))
    assert any(event.startswith("pickle.find_class") for event in seen)
    assert f"writes to {tmp_path / 'canary'}" in seen
    assert (tmp_path / "canary").exists()


def test_it_is_refused_in_one_sentence_and_changes_nothing_or_taken_as_data_inside_the_run(outcomes):
    for attack, found in outcomes.items():
        assert (found["taken"] is None) == (attack in TAKEN), (attack, found["taken"])
        assert all(path.startswith("run/") for path in found["changed"]), attack
        written = any(path.startswith("run/manifests/") for path in found["changed"])
        assert written if attack in TAKEN else found["changed"] == [], attack
        assert found["did"] == [], attack
        for said in (found["taken"], found["read"]):  # one line, and nothing that a terminal would obey
            assert said is None or (said.isprintable() and len(said) < 1000), attack
    assert sum(outcomes[attack]["read"] is not None for attack in REFUSED) > len(REFUSED) // 2


def test_no_code_was_run_and_little_memory_taken(outcomes, place):
    assert not (place / "canary").exists()
    taken = {attack: found["memory"] for attack, found in outcomes.items()}
    assert {attack: size for attack, size in taken.items() if size > MEMORY_BYTES} == {}


def test_the_run_is_whole_afterwards_and_has_what_was_taken_as_nobodys(outcomes, place):
    reader = open_reader(place / "home" / "run")
    own, *imported = reader.snapshots()
    assert own.snapshot_id == "main-0@0"
    assert len(imported) == 1 + len(TAKEN)
    assert {snapshot.role for snapshot in imported} == {"imported"}
    rows = storage.query(place / "home" / "run", "SELECT count(*) AS n FROM snapshots").to_pylist()
    assert rows == [{"n": len(imported) + 1}]
    for snapshot in reader.snapshots():
        assert json.dumps(reader.manifest(snapshot.snapshot_id))


def test_mutants_sealed_and_hashed_as_if_meant_are_refused_in_a_sentence_or_harmless(tmp_path):
    write_run(tmp_path / "run", 0)
    write_run(tmp_path / "theirs", 7)
    reader = open_reader(tmp_path / "theirs")
    export_snapshot(reader, reader.resolve("main-0@7"), tmp_path / "mutant")
    mutants = tried(300, 10_000)
    place = (str(tmp_path), str(tmp_path / "mutant"))
    found = limited("mutated_exports:sealed_mutants", *place, 0, mutants, room_bytes=16 * 2**30)
    figure("sealed mutants: " + ", ".join(f"{name} {count:,}" for name, count in sorted(found.items())))
    assert found.keys() == {
        f"{done}{work}" for done in ("", "refused to ") for work in ("read", "take", "play")
    }
    assert found["read"] + found["refused to read"] == mutants
    assert found["take"] + found["refused to take"] == mutants
    assert len(list(tmp_path.iterdir())) == 3


def test_who_plays_what_was_taken_runs_nothing_either(outcomes, place):
    assert outcomes["a connector that nobody knows"]["taken"] is None
    with pytest.raises(StorageError, match="connectors"):
        league.load_policy(place / "home" / "run", "connector")
    assert not (place / "canary").exists()


@pytest.mark.parametrize(("attack", "exit_code"), [("a pickle for weights", 1), ("an id with colours", 2)])
def test_the_command_line_says_so_in_one_line(outcomes, place, attack, exit_code):
    run = ["snapshots", place / "home" / "run", "import", letter(place, attack)]
    done = subprocess.run(
        [sys.executable, "-m", "league", *map(str, run)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.strip().isprintable()
    assert not done.stdout
