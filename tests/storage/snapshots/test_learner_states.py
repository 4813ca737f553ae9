"""A learner's saved state is whole or the one before; refused batches are kept."""

import pytest
import torch

from storage.errors import CorruptBlob
from storage.snapshots import learner_states
from storage.snapshots.blobs import map_tensors


def test_the_last_state_saved_is_the_one_that_is_loaded(tmp_path):
    assert learner_states.load(tmp_path, "main-0") is None
    for n in (1, 2, 3):
        learner_states.save(tmp_path, "main-0", {"w": torch.full((3,), float(n))}, {"updates": n})
    learner_states.save(tmp_path, "main-1", {"w": torch.zeros(3)}, {"updates": 0})
    tensors, meta = learner_states.load(tmp_path, "main-0")
    assert (tensors["w"].tolist(), meta) == ([3.0, 3.0, 3.0], {"updates": 3})
    assert len(list(tmp_path.glob("main-0.*.safetensors"))) == 1  # older ones are gone


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
