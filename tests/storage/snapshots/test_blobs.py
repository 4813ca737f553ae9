import json
import mmap
import os
import stat
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.disk import Disk, using
from storage.errors import CorruptBlob
from storage.layout import blob_path
from storage.snapshots.blobs import describe, map_tensors, publish, receive, table, verify

torch.set_num_threads(1)


@pytest.fixture
def blob(tmp_path):
    tensors = {
        "b": torch.arange(12, dtype=torch.float32).reshape(3, 4),
        "a": torch.ones(2, dtype=torch.int64),
    }
    blob_hash, _ = publish(tmp_path, tensors)
    return blob_path(tmp_path, blob_hash)


def test_equal_tensors_are_one_blob_whatever_their_order_or_kind(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    first = publish(tmp_path, {"x": array, "y": np.ones(2, np.int64)})
    second = publish(
        tmp_path, {"y": torch.ones(2, dtype=torch.int64), "x": torch.from_numpy(array.T.copy()).T}
    )
    assert first == second
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1
    assert first[1] == blob_path(tmp_path, first[0]).stat().st_size


def test_every_dtype_comes_back_equal_and_other_readers_understand_it(tmp_path):
    tensors = {
        "f64": torch.tensor([1.5, float("nan")], dtype=torch.float64),
        "bf16": torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16),
        "f16": torch.full((1,), 2.0, dtype=torch.float16),
        "i32": torch.arange(5, dtype=torch.int32),
        "u8": torch.tensor([255], dtype=torch.uint8),
        "u16": torch.tensor([2**16 - 1], dtype=torch.uint16),
        "u32": torch.tensor([2**32 - 1], dtype=torch.uint32),
        "u64": torch.tensor([2**63 - 1], dtype=torch.uint64),
        "bool": torch.tensor([[True], [False]]),
        "scalar": torch.tensor(3.0),
        "empty": torch.empty((0, 7), dtype=torch.int16),
    }
    blob_hash, _ = publish(tmp_path, tensors)
    path = blob_path(tmp_path, blob_hash)
    for found in (map_tensors(path, verify=True), safetensors.torch.load_file(path)):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype
            assert found[name].shape == tensor.shape
            assert torch.equal(found[name].nan_to_num(9.0), tensor.nan_to_num(9.0))


def test_a_blob_does_not_follow_the_weights_it_was_made_of(tmp_path):
    live = torch.zeros(4)
    blob_hash, _ = publish(tmp_path, {"w": live})
    mapped = map_tensors(blob_path(tmp_path, blob_hash), verify=True)
    live.add_(1.0)
    assert torch.equal(mapped["w"], torch.zeros(4))
    verify(blob_path(tmp_path, blob_hash))


def test_tied_weights_are_stored_twice_rather_than_refused(tmp_path):
    shared = torch.ones(3)
    blob_hash, _ = publish(tmp_path, {"encoder": shared, "decoder": shared})
    assert map_tensors(blob_path(tmp_path, blob_hash), verify=True).keys() == {"encoder", "decoder"}


def test_writing_to_a_mapped_tensor_changes_neither_the_file_nor_other_maps(blob):
    mine, theirs = map_tensors(blob, verify=False), map_tensors(blob, verify=False)
    mine["b"].fill_(-1.0)
    assert theirs["b"][0, 1] == 1.0
    verify(blob)


def test_mapped_tensors_outlive_the_unlinked_file(blob):
    mapped = map_tensors(blob, verify=True)
    blob.unlink()
    assert mapped["b"].sum() == 66.0


def test_a_map_is_page_cache_and_no_private_copy(tmp_path):
    blob_hash, size = publish(tmp_path, {"w": torch.ones(2_000_000)})
    path = blob_path(tmp_path, blob_hash)
    mapped = map_tensors(path, verify=True)
    assert mapped["w"].sum() == 2_000_000  # every page is touched
    sizes = memory_of(path)
    assert sizes["Rss"] * 1024 >= size
    assert sizes["Private_Dirty"] == 0
    mapped["w"][: mmap.PAGESIZE].fill_(0.0)
    assert memory_of(path)["Private_Dirty"] > 0, "the measure does not measure"


def test_published_files_are_read_only_and_leave_nothing_beside_them(blob):
    assert stat.S_IMODE(blob.stat().st_mode) == 0o444
    assert os.listdir(blob.parent) == [blob.name]


def test_publishing_again_keeps_a_good_file_and_replaces_a_damaged_one(tmp_path):
    tensors = {"w": torch.ones(100)}
    blob_hash, _ = publish(tmp_path, tensors)
    path = blob_path(tmp_path, blob_hash)
    inode = path.stat().st_ino
    publish(tmp_path, tensors)
    assert path.stat().st_ino == inode
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    publish(tmp_path, tensors)
    verify(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_every_flipped_bit_is_found(blob, where, bit):
    data = bytearray(blob.read_bytes())
    data[int(where * len(data))] ^= 1 << bit
    other = blob.parent / "other"
    other.mkdir(exist_ok=True)
    flipped = other / blob.name
    flipped.write_bytes(data)
    with pytest.raises(CorruptBlob, match="hash to"):
        verify(flipped)
    with pytest.raises(CorruptBlob, match="hash to"):
        map_tensors(flipped, verify=True)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', "'a': \\[2\\] of F32"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', "claimed by no tensor"),
        (
            b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
            "two",
        ),
        (b'{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', "shape"),
        (b'{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}', "KeyError"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', "4 bytes behind"),
        (b'{"a":1,"a":2}', "given twice"),
        (b'{"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}}', "more than can be"),
        (b'{"a":{"dtype":"F32","shape":[' + b"1," * 99 + b'1],"data_offsets":[0,4]}}', "shape"),
        (b'{"a":{"dtype":"F32","shape":[' + b"9" * 4000 + b'],"data_offsets":[0,4]}}', "shape .*\\.\\.\\.$"),
        (b"[1]", "no safetensors"),
        (b"[" * 100_000, "no safetensors"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, message):
    path = tmp_path / "lying.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(CorruptBlob, match=message):
        map_tensors(path, verify=False)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", struct.pack("<Q", 2**60) + b"{}", struct.pack("<Q", 20) + b"{}"]
)
def test_truncated_and_missing_files_are_refused(tmp_path, data):
    path = tmp_path / "short.safetensors"
    with pytest.raises(CorruptBlob):
        map_tensors(path, verify=False)
    with pytest.raises(CorruptBlob):
        verify(path)
    path.write_bytes(data)
    with pytest.raises(CorruptBlob):
        map_tensors(path, verify=False)


@pytest.fixture
def offered(blob, tmp_path):
    """What somebody says of a blob: where it is, its hash, its bytes, its tensors."""
    return {
        "objects": tmp_path / "mine",
        "source": blob,
        "blob_hash": blob.stem,
        "size": blob.stat().st_size,
        "tensors": table(blob),
    }


def test_a_blob_that_is_what_it_is_said_to_be_is_received(offered):
    assert receive(**offered) == {
        "a": {"dtype": "int64", "shape": [2]},
        "b": {"dtype": "float32", "shape": [3, 4]},
    }
    path = blob_path(offered["objects"], offered["blob_hash"])
    verify(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert receive(**offered)  # again


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3}, "bytes, its manifest says 3"),
        ({"blob_hash": "0" * 64}, "its bytes hash to"),
        ({"tensors": {}}, "its tensors are not those of its manifest"),
        ({"source": Path("nowhere")}, "cannot be read: No such file"),
        ({"source": Path("/dev/zero")}, "no plain file"),
    ],
)
def test_a_blob_that_is_not_what_it_is_said_to_be_leaves_nothing(offered, changes, message):
    with pytest.raises(CorruptBlob, match=message):
        receive(**offered | changes)
    assert not [path for path in offered["objects"].rglob("*") if path.is_file()]


@pytest.mark.parametrize("change", [lambda file: file.truncate(200), lambda file: file.write(b"\1")])
def test_a_blob_that_is_changed_while_it_is_received_is_refused(offered, change):
    class Changing(Disk):
        def open(self, path, flags, mode=0o644):
            offered["source"].chmod(0o644)
            with offered["source"].open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                change(file)
            return super().open(path, flags, mode)

    large = {"w": torch.arange(2_000_000.0)}
    blob_hash, size = publish(offered["objects"].parent, large)
    source = blob_path(offered["objects"].parent, blob_hash)
    offered |= {"source": source, "blob_hash": blob_hash, "size": size, "tensors": table(source)}
    with using(Changing()), pytest.raises(CorruptBlob, match="its bytes hash to"):
        receive(**offered)
    assert not [path for path in offered["objects"].rglob("*") if path.is_file()]


def test_the_table_of_a_blob_is_read_off_its_header(blob, tmp_path):
    assert table(blob) == describe(map_tensors(blob, verify=True))
    with pytest.raises(CorruptBlob, match="cannot be read: Is a directory"):
        table(tmp_path)


def test_blobs_carry_no_metadata(blob):
    data = blob.read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack_from("<Q", data)[0]])
    assert header.keys() == {"a", "b"}


def memory_of(path):
    """Sizes in KiB of this process's mapping of `path`, from the kernel."""
    sizes, here = {}, False
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            name, _, value = line.partition(":")
            if "-" in name.split(" ")[0] and not value.strip().endswith("kB"):
                here = line.rstrip().endswith(str(path))
            elif here and value.strip().endswith("kB"):
                sizes[name] = sizes.get(name, 0) + int(value.split()[0])
    return sizes
