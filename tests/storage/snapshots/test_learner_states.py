"""A learner's saved state is whole or the one before; refused batches are kept."""

import itertools

import pytest
import torch

from storage.errors import CorruptBlob
from storage.snapshots import learner_states
from storage.snapshots.blobs import map_tensors


def test_the_last_state_saved_is_the_one_that_is_loaded(tmp_path):
    assert learner_states.load(tmp_path, "main-0") is None
    for n in (1, 2, 3):
        state = {"weights/w": torch.full((3,), float(n)), "optimizer/step": torch.tensor(4.0)}
        learner_states.save(tmp_path, "main-0", state, {"updates": n})
        (tmp_path / "main-0.999.safetensors").write_bytes(b"half of one that was not finished")
        assert learner_states.load(tmp_path, "main-0")[1] == {"updates": n}
    learner_states.save(tmp_path, "main-0.1", {"w": torch.zeros(3)}, {"updates": 0})
    tensors, meta = learner_states.load(tmp_path, "main-0")
    assert (tensors["weights/w"].tolist(), tensors["optimizer/step"]) == ([3.0] * 3, 4.0)
    assert meta == {"updates": 3}
    assert learner_states.load(tmp_path, "main-0.1")[1] == {"updates": 0}
    assert len(list(tmp_path.glob("main-0.*.safetensors"))) == 2  # the last, and the half one


def test_a_damaged_state_is_refused(tmp_path):
    learner_states.save(tmp_path, "main-0", {"w": torch.zeros(3)}, {})
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-4] + b"oops")
    with pytest.raises(CorruptBlob):
        learner_states.load(tmp_path, "main-0")
    (tmp_path / "main-0.json").write_text("{")
    with pytest.raises(CorruptBlob, match=r"main-0\.json: the state of a learner cannot be read"):
        learner_states.load(tmp_path, "main-0")


def test_a_refused_batch_is_kept_beside_the_states(tmp_path):
    path = learner_states.save_refused(tmp_path, "main-0", 7, {"reward": torch.tensor([float("nan")])})
    assert path.parent.parent == tmp_path
    assert "7" in path.name
    assert map_tensors(path, verify=False)["reward"].isnan().all()


def test_tensors_that_no_head_names_are_superseded(tmp_path):
    for n in (1, 2):
        learner_states.save(tmp_path, "main-0", {"w": torch.zeros(3)}, {"updates": n})
    assert learner_states.superseded(tmp_path) == []
    (tmp_path / "main-0.1.safetensors").write_bytes(b"older")
    (tmp_path / "late.1.safetensors").write_bytes(b"its head was never written")
    (tmp_path / "notes.safetensors").write_bytes(b"mine")
    (tmp_path / "main-0.7.safetensors").symlink_to("notes.safetensors")
    names = [path.name for path in learner_states.superseded(tmp_path)]
    assert names == ["late.1.safetensors", "main-0.1.safetensors"]
    (tmp_path / "main-0.json").write_text("[]")
    with pytest.raises(CorruptBlob, match=r"main-0\.json"):
        learner_states.superseded(tmp_path)


def save_and_keep(folder, env_steps, most, frame=None):
    meta = {"updates": env_steps // 10, "env_steps": env_steps}
    frame = env_steps if frame is None else frame
    learner_states.save(folder, "main-0", {"w": torch.full((3,), float(env_steps))}, meta, frame)
    learner_states.keep(folder, "main-0", most)


def test_states_are_kept_for_branches_and_found_with_their_frame_of_the_ledger(tmp_path):
    for env_steps in (100, 200, 300):
        save_and_keep(tmp_path, env_steps, most=8)
    learner_states.save(tmp_path, "main-0", {"w": torch.zeros(3)}, {"updates": 31, "env_steps": 310}, 310)
    found = learner_states.states(tmp_path, "main-0")
    assert [(state.frame, state.env_steps) for state in found] == [(n, n) for n in (100, 200, 300, 310)]
    assert [map_tensors(s.tensors, verify=True, blob_hash=s.hash)["w"][0].item() for s in found] == [
        *(100, 200, 300),
        0,
    ]
    (found[0].tensors.with_name("main-0.7.1.safetensors")).write_bytes(b"its head was never written")
    kept = learner_states.superseded(tmp_path / "kept")
    assert [path.name for path in kept] == ["main-0.7.1.safetensors"]
    assert learner_states.superseded(tmp_path) == []
    assert learner_states.states(tmp_path, "main-1") == []


def test_kept_states_stay_spread_over_the_run(tmp_path):
    for n in range(1, 17):
        save_and_keep(tmp_path, 100 * n, most=4)
    kept = [state.env_steps for state in learner_states.states(tmp_path, "main-0")][:-1]
    assert (len(kept), kept[0], kept[-1]) == (4, 100, 1600)
    assert all(200 <= after - before <= 900 for before, after in itertools.pairwise(kept))
    assert len(list((tmp_path / "kept").iterdir())) == 8
    learner_states.keep(tmp_path, "main-0", 0)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_state_that_notes_no_frame_is_not_kept(tmp_path):
    learner_states.save(tmp_path, "main-0", {"w": torch.zeros(3)}, {"updates": 1, "env_steps": 10})
    learner_states.keep(tmp_path, "main-0", 4)
    assert [state.frame for state in learner_states.states(tmp_path, "main-0")] == [None]
