"""Damaged blobs, manifests and frames: none is accepted, none crashes the process or eats its memory."""

import pytest

from tests.storage.faults.counts import figure, tried
from tests.storage.hostile.limited import limited
from tests.storage.hostile.mutations import mutant

pytestmark = pytest.mark.slow

MUTANTS = tried(1_000, 10_000)  # of each kind of file


def test_a_mutant_never_equals_its_original_and_comes_from_its_seed():
    original = bytes(range(256)) * 4
    mutants = [mutant(original, seed) for seed in range(500)]
    assert original not in mutants
    assert mutants == [mutant(original, seed) for seed in range(500)]
    sizes = [len(data) for data in mutants]
    assert min(sizes) < len(original) // 2
    assert len(set(mutants)) > 450, "mutants differ among themselves"
    assert sum(size == len(original) for size in sizes) > 100
    assert max(sizes) > len(original)


@pytest.mark.long
def test_a_child_has_no_more_memory_than_it_was_given():
    assert limited("damaged_files:take", 2**20) == 2**20
    with pytest.raises(AssertionError, match="MemoryError"):
        limited("damaged_files:take", 600 * 2**20)


@pytest.mark.long
def test_no_mutated_blob_is_accepted_and_unverified_ones_stay_inside_their_file(tmp_path):
    found = limited("damaged_files:blob_mutants", str(tmp_path), 0, MUTANTS)
    show("blobs", found)
    assert found["refused by verify"] == found["refused by map_tensors"] == MUTANTS
    assert found["mapped unverified"] + found["refused unverified"] == MUTANTS
    assert found["mapped unverified"] > 0, "no mutant reached the reading of tensors"


@pytest.mark.long
def test_no_mutated_manifest_is_accepted(tmp_path):
    found = limited("damaged_files:manifest_mutants", str(tmp_path), 0, MUTANTS)
    show("manifests", found)
    assert found == {"refused": MUTANTS}


@pytest.mark.long
def test_no_mutated_frame_is_served_and_only_a_torn_end_is_cut(tmp_path):
    found = limited("damaged_files:journal_mutants", str(tmp_path), 0, MUTANTS)
    show("frames", found)
    assert sum(found.values()) == MUTANTS
    assert found.keys() == {"refused", "cut as torn", "nothing lost"}
    assert found["refused"] > MUTANTS // 2, "damage before the last journal is always refused"


@pytest.mark.long
def test_no_mutated_file_of_a_compacted_segment_is_accepted_by_any_reader(tmp_path):
    found = limited("damaged_files:segment_mutants", str(tmp_path), 0, MUTANTS)
    show("compacted segments", found)
    assert found == {"refused": 4 * MUTANTS}


def show(what, found):
    figure(f"{what}: " + ", ".join(f"{name} {count:,}" for name, count in sorted(found.items())))
